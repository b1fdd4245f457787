/** The numbers of a limit for the algorithms. Times are whole microseconds. */
export interface Numbers {
  readonly requests: number;
  readonly periodUs: number;
  /** Units that may pass at once: the depth of a bucket, or `requests` of the other algorithms. At least 1. */
  readonly burst: number;
  /** The number of buckets; only `sub_windows` uses it. */
  readonly buckets: number;
}

/** The outcome of a charge. */
export interface Verdict {
  readonly allowed: boolean;
  /** The largest cost that still fits: after the charge if it is allowed, as it stands if it is denied. */
  readonly remaining: number;
  /** Microseconds until the counter is as if nothing had been charged. */
  readonly resetAfterUs: number;
  /** Microseconds until the same charge would pass; null if it passes now, or never would. */
  readonly retryAfterUs: number | null;
}

/** An earlier charge that is to be corrected. */
export interface Taken {
  readonly atUs: number;
  /** When the counter would have been empty again, had nothing more been charged. */
  readonly clearAtUs: number;
}

/**
 * The counter of one key, by one algorithm. The algorithms decide as those of the service; the file `vectors.json` of
 * each algorithm in the repository checks that.
 */
export interface Counter {
  /** Returns the outcome of a charge without charging it. A cost of 0 always passes, unless the counter is overdrawn. */
  assess(limit: Numbers, cost: number, nowUs: number): Verdict;
  /** Charges a cost, whether it fits or not. */
  take(limit: Numbers, cost: number, nowUs: number): void;
  /** Charges a cost that was used already, even if it is more than the limit has. */
  overdraw(limit: Numbers, cost: number, nowUs: number): void;
  /** Gives a cost back, never above full; what was charged last comes first. */
  giveBack(limit: Numbers, cost: number, nowUs: number): void;
  /** Gives a part of an earlier charge back to the window that was charged, as far as that still counts. */
  giveBackTaken(limit: Numbers, cost: number, taken: Taken, nowUs: number): void;
  /** Continues under numbers that may have changed; called when a charge is denied. */
  adoptNumbers?(limit: Numbers, nowUs: number): void;
}

/** The largest count or cost. */
export const MAX_COUNT = 2 ** 53;

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
