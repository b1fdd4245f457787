import { counterOf, type Counter, type Numbers, type Verdict } from './algorithms/index.js';
import type { CheckBody, FullDescriptor } from './descriptor.js';
import { countingAlgorithm, limitIdentity, numbersOf } from './limit-numbers.js';
import { titlesOf, type Limit } from './limits.js';

/**
 * What decides if the service cannot be reached or is too slow: `allow` lets every request pass, `deny` none, and
 * `local` counts the limits of the request, or else the `localLimits` of the client, in this process.
 */
export type Fallback = 'allow' | 'deny' | 'local';

/** A charge to one counter of this process. */
export interface LocalCharge {
  /** The key of the counter. */
  readonly key: string;
  /** Domain, rule and entries as one string. */
  readonly partition: string;
  /** `inline` for limits of the request, `local` for those of the client. */
  readonly rule: string;
  readonly limit: Limit;
  /** The name of the limit in decisions. */
  readonly title: string;
  readonly cost: number;
  /** Whether the cost is the estimate of a reservation, and not that of a descriptor. */
  readonly adjustable: boolean;
}

/** The outcome of a {@link LocalCharge}. */
export interface LocalVerdict {
  readonly charge: LocalCharge;
  /** When it was decided, in microseconds since the epoch. */
  readonly atUs: number;
  readonly allowed: boolean;
  /** Units left. */
  readonly remaining: number;
  /** Milliseconds until the limit is full again. */
  readonly resetAfterMs: number;
  /** Milliseconds until the same charge would pass; null if it passes now, or never would. */
  readonly retryAfterMs: number | null;
}

/** Counters that a process keeps at most. */
const MAX_KEYS = 100_000;
/** Number of counters that are compared when one has to be forgotten: the work for a new key is bounded. */
const CANDIDATES = 16;

/** Returns the charges of a check in this process; none if neither it nor the client has limits. */
export function localCharges(body: CheckBody, localLimits: readonly Limit[] | undefined): LocalCharge[] {
  return body.descriptors.flatMap((descriptor) => {
    const rule = descriptor.limits ? 'inline' : 'local';
    const limits = descriptor.limits ?? localLimits ?? [];
    const partition = partitionOf(body.domain, rule, descriptor);
    const titles = titlesOf(limits);
    return limits.map((limit, index) => ({
      key: partition + limitIdentity(limit),
      partition,
      rule,
      limit,
      title: titles[index] as string,
      cost: descriptor.cost ?? body.cost,
      adjustable: descriptor.cost === undefined,
    }));
  });
}

function partitionOf(domain: string, rule: string, { entries }: FullDescriptor): string {
  return JSON.stringify([domain, rule, entries.map(({ key, value }) => [key, value])]);
}

/** A counter, and the numbers of the limit that it was last charged under. */
interface KeptCounter {
  readonly counter: Counter;
  readonly numbers: Numbers;
}

/** A charge with its counter, which is kept only once something is taken from it. */
interface OpenCharge extends KeptCounter {
  readonly charge: LocalCharge;
}

/**
 * Counts in this process, by the algorithms of the service, for at most `maxKeys` keys.
 *
 * If there is no room for a new key, the next few counters in turn are compared. Those that have run out are
 * dropped. If none has, the one that has used the smallest share of its limit is forgotten; where all have
 * used all of it, the key that was added last is. So a flood of keys frees no key that is at its limit, as in
 * the service.
 */
export class LocalLimiter {
  /** By key, of which the algorithm is a part: a counter is never read by another one. */
  readonly #kept = new Map<string, KeptCounter>();
  readonly #maxKeys: number;
  /** Goes round the keys to compare. An iterator of a map goes on with what is added and deleted meanwhile. */
  #turn = this.#kept.keys();
  #addedLast = '';

  constructor(options: { readonly maxKeys?: number } = {}) {
    this.#maxKeys = options.maxKeys ?? MAX_KEYS;
  }

  /** Number of counters. */
  get size(): number {
    return this.#kept.size;
  }

  /** Forgets every counter. */
  clear(): void {
    this.#kept.clear();
  }

  /** Takes every charge or none, and returns one verdict each, in order; `nowMs` is since the epoch. */
  charge(charges: readonly LocalCharge[], nowMs: number): LocalVerdict[] {
    const nowUs = microseconds(nowMs);
    // Two charges of one request may be for one counter.
    const added = new Map<string, Counter>();
    const open = charges.map((charge) => this.#open(charge, added));
    const pending = new Map<Counter, number>();
    const verdicts = open.map(({ charge, numbers, counter }) => {
      const cost = (pending.get(counter) ?? 0) + charge.cost;
      pending.set(counter, cost);
      return counter.assess(numbers, cost, nowUs);
    });
    const taken = verdicts.every(({ allowed }) => allowed);
    for (const one of open.filter(({ charge }) => charge.cost > 0)) {
      if (taken) {
        one.counter.take(one.numbers, one.charge.cost, nowUs);
        this.#keep(one, nowUs);
      } else {
        one.counter.adoptNumbers?.(one.numbers, nowUs);
      }
    }
    return open.map(({ charge, numbers, counter }, index) => {
      const found = verdicts[index] as Verdict;
      return verdictOf(charge, found.allowed ? { ...counter.assess(numbers, 0, nowUs), allowed: true, retryAfterUs: null } : found, nowUs);
    });
  }

  /** Gives a cost back, never above full, to what was charged last first, as the service does. */
  giveBack(charges: readonly LocalCharge[], nowMs: number): void {
    for (const charge of charges) {
      // A key without a counter has taken nothing, so none is created for it.
      if (!this.#kept.has(charge.key)) continue;
      const { counter, numbers } = this.#open(charge);
      counter.giveBack(numbers, charge.cost, microseconds(nowMs));
    }
  }

  /** Corrects charges: more is taken now; less is given back to where it was taken, as far as that still counts. */
  adjust(taken: readonly LocalVerdict[], by: number, nowMs: number): void {
    const nowUs = microseconds(nowMs);
    for (const { charge, atUs, resetAfterMs } of taken.filter((one) => one.charge.adjustable)) {
      if (by <= 0 && !this.#kept.has(charge.key)) continue;
      const one = this.#open(charge);
      if (by > 0) one.counter.overdraw(one.numbers, by, nowUs);
      else one.counter.giveBackTaken(one.numbers, -by, { atUs, clearAtUs: atUs + resetAfterMs * 1_000 }, nowUs);
      this.#keep(one, nowUs);
    }
  }

  #open(charge: LocalCharge, added = new Map<string, Counter>()): OpenCharge {
    const numbers = numbersOf(charge.limit);
    const found = this.#kept.get(charge.key)?.counter ?? added.get(charge.key);
    const counter = found ?? counterOf(countingAlgorithm(charge.limit), numbers);
    if (!found) added.set(charge.key, counter);
    return { charge, numbers, counter };
  }

  #keep({ charge, counter, numbers }: OpenCharge, nowUs: number): void {
    if (!this.#kept.has(charge.key)) {
      if (this.#kept.size >= this.#maxKeys) this.#makeRoom(nowUs);
      this.#addedLast = charge.key;
    }
    this.#kept.set(charge.key, { counter, numbers });
  }

  #makeRoom(nowUs: number): void {
    let forgotten = this.#addedLast;
    let fewest = 1;
    for (let compared = 0; compared < CANDIDATES && this.#kept.size > 0; compared += 1) {
      const key = this.#next();
      const used = usedShare(this.#kept.get(key) as KeptCounter, nowUs);
      if (used === 0) this.#kept.delete(key);
      else if (used < fewest) [forgotten, fewest] = [key, used];
    }
    if (this.#kept.size >= this.#maxKeys) this.#kept.delete(forgotten);
  }

  #next(): string {
    const next = this.#turn.next();
    if (!next.done) return next.value;
    this.#turn = this.#kept.keys();
    return this.#turn.next().value as string;
  }
}

/** Returns the share of a limit that is used, from 0 to 1; 0 if forgetting the counter changes nothing. */
function usedShare({ counter, numbers }: KeptCounter, nowUs: number): number {
  return 1 - counter.assess(numbers, 0, nowUs).remaining / numbers.burst;
}

function microseconds(milliseconds: number): number {
  return Math.floor(milliseconds * 1_000);
}

/** Returns a verdict in milliseconds, rounded up so that no client returns too early. */
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
