import { counterOf, type Counter, type Numbers, type Verdict } from './algorithms/index.js';
import type { Asked, FullDescriptor } from './descriptor.js';
import { countingAlgorithm, limitIdentity, numbersOf } from './limit-numbers.js';
import { titlesOf, type Limit } from './limits.js';

/**
 * What happens if the service does not decide: `allow` and `deny` do what they say; `local` counts the
 * limits of the request, or else those of the client, in this process.
 */
export type Fallback = 'allow' | 'deny' | 'local';

/** A limit of a request, and the counter it is about. */
export interface LocalCharge {
  readonly key: string;
  /** Who is limited by what: domain, rule and entries as one text. */
  readonly partition: string;
  /** `inline`, or `local` for limits that are the client's. */
  readonly rule: string;
  readonly limit: Limit;
  /** What the limit is called in its list. */
  readonly title: string;
  readonly cost: number;
  /** Whether settling a reservation changes it: not where a descriptor has a cost of its own. */
  readonly adjustable: boolean;
}

/** How a limit stands after a charge was decided. */
export interface LocalVerdict {
  readonly charge: LocalCharge;
  /** When it was decided, in microseconds since the epoch. */
  readonly atUs: number;
  readonly allowed: boolean;
  readonly remaining: number;
  readonly resetAfterMs: number;
  /** Null if it is allowed, or never will be. */
  readonly retryAfterMs: number | null;
}

/** At most so many counters; of more, those that were not used for longest are forgotten. */
const MOST_KEYS = 100_000;

/** The limits that a request falls under in this process; none if neither it nor the client has any. */
export function localCharges(asked: Asked, ofClient: readonly Limit[] | undefined): LocalCharge[] {
  return asked.descriptors.flatMap((descriptor) => {
    const rule = descriptor.limits ? 'inline' : 'local';
    const limits = descriptor.limits ?? ofClient ?? [];
    const partition = partitionOf(asked.domain, rule, descriptor);
    const titles = titlesOf(limits);
    return limits.map((limit, index) => ({
      key: partition + limitIdentity(limit),
      partition,
      rule,
      limit,
      title: titles[index] as string,
      cost: descriptor.cost ?? asked.cost,
      adjustable: descriptor.cost === undefined,
    }));
  });
}

function partitionOf(domain: string, rule: string, { entries }: FullDescriptor): string {
  return JSON.stringify([domain, rule, entries.map(({ key, value }) => [key, value])]);
}

/** A charge with its counter. */
interface Open {
  readonly charge: LocalCharge;
  readonly numbers: Numbers;
  readonly counter: Counter;
}

/** Counts in this process, by the algorithms of the service. */
export class LocalLimiter {
  /** By key, of which the algorithm is a part: a counter is never read by another one. */
  readonly #counted = new Map<string, Counter>();
  readonly #mostKeys: number;

  constructor(options: { readonly mostKeys?: number } = {}) {
    this.#mostKeys = options.mostKeys ?? MOST_KEYS;
  }

  /** How many counters there are. */
  get size(): number {
    return this.#counted.size;
  }

  /** Forgets all that was counted. */
  clear(): void {
    this.#counted.clear();
  }

  /** Takes every charge or none; `nowMs` is since the epoch. */
  charge(charges: readonly LocalCharge[], nowMs: number): LocalVerdict[] {
    const nowUs = microseconds(nowMs);
    const open = charges.map((charge) => this.#open(charge));
    // Two charges of one request may be about one counter.
    const pending = new Map<Counter, number>();
    const verdicts = open.map(({ charge, numbers, counter }) => {
      const cost = (pending.get(counter) ?? 0) + charge.cost;
      pending.set(counter, cost);
      return counter.assess(numbers, cost, nowUs);
    });
    const taken = verdicts.every(({ allowed }) => allowed);
    for (const { charge, numbers, counter } of open) {
      if (charge.cost === 0) continue;
      if (taken) counter.take(numbers, charge.cost, nowUs);
      else counter.carryOn?.(numbers, nowUs);
    }
    return open.map(({ charge, numbers, counter }, index) => {
      const found = verdicts[index] as Verdict;
      return verdictOf(charge, found.allowed ? { ...counter.assess(numbers, 0, nowUs), allowed: true, retryAfterUs: null } : found, nowUs);
    });
  }

  /** Gives back, never above full, and what was charged last first, as the service does. */
  giveBack(charges: readonly LocalCharge[], nowMs: number): void {
    for (const charge of charges) {
      // Of who has taken nothing there is nothing to keep, least of all in another's place.
      if (!this.#counted.has(charge.key)) continue;
      const { counter, numbers } = this.#open(charge);
      counter.giveBack(numbers, charge.cost, microseconds(nowMs));
    }
  }

  /** Changes what was taken: more is taken now; less is given back to where it was taken, as far as that still counts. */
  adjust(taken: readonly LocalVerdict[], by: number, nowMs: number): void {
    const nowUs = microseconds(nowMs);
    for (const { charge, atUs, resetAfterMs } of taken.filter((one) => one.charge.adjustable)) {
      if (by <= 0 && !this.#counted.has(charge.key)) continue;
      const { counter, numbers } = this.#open(charge);
      if (by > 0) counter.overdraw(numbers, by, nowUs);
      else counter.giveBackTaken(numbers, -by, { atUs, clearAtUs: atUs + resetAfterMs * 1_000 }, nowUs);
    }
  }

  #open(charge: LocalCharge): Open {
    const numbers = numbersOf(charge.limit);
    const found = this.#counted.get(charge.key);
    const counter = found ?? counterOf(countingAlgorithm(charge.limit), numbers);
    // A map keeps the order of insertion: the first was not used for longest.
    if (found) this.#counted.delete(charge.key);
    this.#counted.set(charge.key, counter);
    if (this.#counted.size > this.#mostKeys) {
      for (const oldest of this.#counted.keys()) {
        this.#counted.delete(oldest);
        break;
      }
    }
    return { charge, numbers, counter };
  }
}

function microseconds(milliseconds: number): number {
  return Math.floor(milliseconds * 1_000);
}

/** Times are rounded up, so that nobody returns too early. */
function verdictOf(charge: LocalCharge, verdict: Verdict, atUs: number): LocalVerdict {
  const { allowed, remaining, resetAfterUs, retryAfterUs } = verdict;
  return {
    charge,
    atUs,
    allowed,
    remaining,
    resetAfterMs: Math.ceil(resetAfterUs / 1_000),
    retryAfterMs: retryAfterUs === null ? null : Math.ceil(retryAfterUs / 1_000),
  };
}
