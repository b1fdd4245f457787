/** The numbers of a limit as the algorithms count with them. Times are whole microseconds. */
export interface Numbers {
  readonly requests: number;
  readonly periodUs: number;
  /** Units that may pass at once: the depth of a bucket, or `requests` of the other algorithms. At least 1. */
  readonly burst: number;
  /** Parts of the window; only `sub_windows` looks at it. */
  readonly buckets: number;
}

/** What would become of a charge. */
export interface Verdict {
  readonly allowed: boolean;
  /** The largest cost that still fits: after the charge if it is allowed, as it stands if it is denied. */
  readonly remaining: number;
  /** Until the limit is as if untouched. */
  readonly resetAfterUs: number;
  /** Until the same charge fits; null if it is allowed, or never will be. */
  readonly retryAfterUs: number | null;
}

/** What a later correction has to know of a charge. */
export interface Taken {
  readonly atUs: number;
  /** When the limit would have been untouched again, had nothing more been charged. */
  readonly clearAtUs: number;
}

/**
 * What is counted under one key, by one algorithm. They are those of the service, decision by decision:
 * `vectors.json` of each algorithm in its repository holds both to the same numbers.
 */
export interface Counter {
  /** Returns what would become of a charge, and changes nothing. A cost of 0 only looks. */
  assess(limit: Numbers, cost: number, nowUs: number): Verdict;
  /** Charges, whether it fits or not. */
  take(limit: Numbers, cost: number, nowUs: number): void;
  /** Charges what was used already, even if that is more than the limit holds. */
  overdraw(limit: Numbers, cost: number, nowUs: number): void;
  /** Gives back, never above full; what was charged last first. */
  giveBack(limit: Numbers, cost: number, nowUs: number): void;
  /** Gives a part of one charge back to where it was taken, as far as that still counts. */
  giveBackTaken(limit: Numbers, cost: number, taken: Taken, nowUs: number): void;
  /** Goes on under numbers that have changed; called when a charge is denied. */
  carryOn?(limit: Numbers, nowUs: number): void;
}

/** Counts and costs are at most this. */
export const MOST_COUNT = 2 ** 53;

/** Returns `a * b / c` rounded down; the product may need more than 53 bits. */
export function mulDivFloor(a: number, b: number, c: number): number {
  const product = a * b;
  if (product <= Number.MAX_SAFE_INTEGER) return Math.floor(product / c);
  return Number((BigInt(a) * BigInt(b)) / BigInt(c));
}

/** Returns `a * b / c` rounded up; the product may need more than 53 bits. */
export function mulDivCeil(a: number, b: number, c: number): number {
  const product = a * b;
  if (product <= Number.MAX_SAFE_INTEGER) return Math.ceil(product / c);
  return Number((BigInt(a) * BigInt(b) + BigInt(c) - 1n) / BigInt(c));
}
