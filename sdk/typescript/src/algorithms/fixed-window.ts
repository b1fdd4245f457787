import { MAX_COUNT, type Counter, type Numbers, type Taken, type Verdict } from './counter.js';

/** One count per window; windows begin at multiples of their length since the epoch. */
export class FixedWindow implements Counter {
  /** The end of the window that the count belongs to. */
  #endUs = 0;
  #count = 0;

  assess({ requests, periodUs }: Numbers, cost: number, nowUs: number): Verdict {
    const endUs = endOf(periodUs, nowUs);
    const count = this.#countIn(endUs);
    const resetAfterUs = endUs - nowUs;
    if (cost <= requests - count) return { allowed: true, remaining: requests - count - cost, resetAfterUs, retryAfterUs: null };
    const retryAfterUs = cost > requests ? null : resetAfterUs;
    return { allowed: false, remaining: Math.max(0, requests - count), resetAfterUs, retryAfterUs };
  }

  take({ periodUs }: Numbers, cost: number, nowUs: number): void {
    const endUs = endOf(periodUs, nowUs);
    this.#count = Math.min(this.#countIn(endUs) + cost, MAX_COUNT);
    this.#endUs = endUs;
  }

  overdraw(limit: Numbers, cost: number, nowUs: number): void {
    this.take(limit, cost, nowUs);
  }

  giveBack({ periodUs }: Numbers, cost: number, nowUs: number): void {
    const endUs = endOf(periodUs, nowUs);
    this.#count = Math.max(0, this.#countIn(endUs) - cost);
    this.#endUs = endUs;
  }

  giveBackTaken(limit: Numbers, cost: number, taken: Taken, nowUs: number): void {
    if (taken.atUs <= nowUs && endOf(limit.periodUs, taken.atUs) === endOf(limit.periodUs, nowUs)) this.giveBack(limit, cost, nowUs);
  }

  #countIn(endUs: number): number {
    return this.#endUs === endUs ? this.#count : 0;
  }
}

function endOf(periodUs: number, nowUs: number): number {
  return nowUs - (nowUs % periodUs) + periodUs;
}
