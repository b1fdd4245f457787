import type { Asked, FullDescriptor } from './descriptor.js';
import { windowMs, type Limit } from './limits.js';

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
  readonly cost: number;
  /** Whether settling a reservation changes it: not where a descriptor has a cost of its own. */
  readonly adjustable: boolean;
}

/** How a limit stands after a charge was decided. */
export interface LocalVerdict {
  readonly charge: LocalCharge;
  /** Number of the window that it was counted in. */
  readonly window: number;
  readonly allowed: boolean;
  readonly remaining: number;
  readonly resetAfterMs: number;
  /** Null if it is allowed, or never will be. */
  readonly retryAfterMs: number | null;
}

interface Counter {
  /** Number of the window since the epoch. */
  window: number;
  before: number;
  current: number;
}

/** At most so many counters; of more, those that were not used for longest are forgotten. */
const MOST_KEYS = 100_000;

/** The limits that a request falls under in this process; none if neither it nor the client has any. */
export function localCharges(asked: Asked, ofClient: readonly Limit[] | undefined): LocalCharge[] {
  return asked.descriptors.flatMap((descriptor) => {
    const rule = descriptor.limits ? 'inline' : 'local';
    const limits = descriptor.limits ?? ofClient ?? [];
    const partition = partitionOf(asked.domain, rule, descriptor);
    return limits.map((limit) => ({
      key: partition + JSON.stringify([limit.requests, limit.per, limit.name]),
      partition,
      rule,
      limit,
      cost: descriptor.cost ?? asked.cost,
      adjustable: descriptor.cost === undefined,
    }));
  });
}

function partitionOf(domain: string, rule: string, { entries }: FullDescriptor): string {
  return JSON.stringify([domain, rule, entries.map(({ key, value }) => [key, value])]);
}

/**
 * Counts in this process while the service cannot: a sliding window made of two counters, the last
 * window's weighted by how much of it the sliding one still covers.
 */
export class LocalLimiter {
  readonly #counters = new Map<string, Counter>();
  readonly #mostKeys: number;

  constructor(options: { readonly mostKeys?: number } = {}) {
    this.#mostKeys = options.mostKeys ?? MOST_KEYS;
  }

  /** How many counters there are. */
  get size(): number {
    return this.#counters.size;
  }

  /** Takes every charge or none; `nowMs` is since the epoch. */
  charge(charges: readonly LocalCharge[], nowMs: number): LocalVerdict[] {
    const counters = charges.map((charge) => this.#counter(charge, nowMs));
    // Two charges of one request may be about one counter.
    const pending = new Map<Counter, number>();
    const fits = charges.map((charge, index) => {
      const counter = counters[index] as Counter;
      const cost = (pending.get(counter) ?? 0) + charge.cost;
      pending.set(counter, cost);
      return charge.cost === 0 || cost <= room(counter, charge.limit, nowMs);
    });
    if (fits.every(Boolean)) {
      for (const [index, charge] of charges.entries()) (counters[index] as Counter).current += charge.cost;
    }
    return charges.map((charge, index) => verdict(charge, counters[index] as Counter, fits[index] === true, nowMs));
  }

  /** Gives back, never above full: to the window that there is now first, then to the one before, as the service does. */
  giveBack(charges: readonly LocalCharge[], nowMs: number): void {
    for (const charge of charges) {
      // Of who has taken nothing there is nothing to keep, least of all in another's place.
      if (!this.#counters.has(charge.key)) continue;
      const counter = this.#counter(charge, nowMs);
      const fromCurrent = Math.min(counter.current, charge.cost);
      counter.current -= fromCurrent;
      counter.before = Math.max(0, counter.before - (charge.cost - fromCurrent));
    }
  }

  /**
   * Changes what was taken: more is taken now; less is given back to the window it came from, as far as
   * that is still counted.
   */
  adjust(taken: readonly LocalVerdict[], by: number, nowMs: number): void {
    for (const { charge, window } of taken.filter((one) => one.charge.adjustable)) {
      if (by <= 0 && !this.#counters.has(charge.key)) continue;
      const counter = this.#counter(charge, nowMs);
      if (by > 0 || window === counter.window) counter.current = Math.max(0, counter.current + by);
      else if (window === counter.window - 1) counter.before = Math.max(0, counter.before + by);
    }
  }

  #counter({ key, limit }: LocalCharge, nowMs: number): Counter {
    const window = Math.floor(nowMs / windowMs(limit.per));
    const found = this.#counters.get(key);
    const counter = found ?? { window, before: 0, current: 0 };
    if (window > counter.window) {
      counter.before = window === counter.window + 1 ? counter.current : 0;
      counter.current = 0;
      counter.window = window;
    }
    // A map keeps the order of insertion: the first was not used for longest.
    if (found) this.#counters.delete(key);
    this.#counters.set(key, counter);
    if (this.#counters.size > this.#mostKeys) {
      for (const oldest of this.#counters.keys()) {
        this.#counters.delete(oldest);
        break;
      }
    }
    return counter;
  }
}

/** Milliseconds of the counter's window that have gone by; all of it if time stepped back. */
function elapsed(counter: Counter, length: number, nowMs: number): number {
  return Math.min(Math.max(nowMs - counter.window * length, 0), length);
}

/** Units that are left; the part of the last window that still weighs is rounded up, so that nothing passes too early. */
function room(counter: Counter, limit: Limit, nowMs: number): number {
  const length = windowMs(limit.per);
  const weighs = Math.ceil((counter.before * (length - elapsed(counter, length, nowMs))) / length);
  return limit.requests - counter.current - weighs;
}

function verdict(charge: LocalCharge, counter: Counter, allowed: boolean, nowMs: number): LocalVerdict {
  const { limit } = charge;
  const length = windowMs(limit.per);
  const gone = elapsed(counter, length, nowMs);
  let resetAfterMs = 0;
  if (counter.current > 0) resetAfterMs = 2 * length - gone;
  else if (counter.before > 0) resetAfterMs = length - gone;
  return {
    charge,
    window: counter.window,
    allowed,
    remaining: Math.max(0, room(counter, limit, nowMs)),
    resetAfterMs: Math.ceil(resetAfterMs),
    retryAfterMs: allowed ? null : retryAfter(charge, counter, length, gone),
  };
}

function retryAfter({ cost, limit }: LocalCharge, counter: Counter, length: number, gone: number): number | null {
  const most = limit.requests - cost;
  if (most < 0) return null;
  // Milliseconds into the next window after which a count weighs no more than `left`.
  const shrunk = (count: number, left: number): number => (count <= left ? 0 : length - Math.floor((left * length) / count));
  if (counter.current <= most) return Math.max(1, shrunk(counter.before, most - counter.current) - gone);
  return Math.max(1, length - gone + shrunk(counter.current, most));
}
