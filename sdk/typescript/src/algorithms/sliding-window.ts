import { mulDivCeil, mulDivFloor, MAX_COUNT, type Counter, type Numbers, type Taken, type Verdict } from './counter.js';

/** Two counters: the current window, and the previous one weighted by the part that is less than a window ago. */
export class SlidingWindow implements Counter {
  #startUs = 0;
  #current = 0;
  #previous = 0;

  assess({ requests, periodUs }: Numbers, cost: number, nowUs: number): Verdict {
    const { startUs, current, previous } = this.#at(periodUs, nowUs);
    const leftUs = periodUs - (nowUs - startUs);
    // Rounded up, so that no request passes too early.
    const room = requests - current - mulDivCeil(previous, leftUs, periodUs);
    if (cost <= room) {
      return { allowed: true, remaining: room - cost, resetAfterUs: resetAfter(current + cost, previous, leftUs, periodUs), retryAfterUs: null };
    }
    return {
      allowed: false,
      remaining: Math.max(0, room),
      resetAfterUs: resetAfter(current, previous, leftUs, periodUs),
      retryAfterUs: cost > requests ? null : retryAfter({ current, previous }, requests - cost, leftUs, periodUs),
    };
  }

  take({ periodUs }: Numbers, cost: number, nowUs: number): void {
    this.#moveTo(periodUs, nowUs);
    this.#current = Math.min(this.#current + cost, MAX_COUNT);
  }

  overdraw(limit: Numbers, cost: number, nowUs: number): void {
    this.take(limit, cost, nowUs);
  }

  giveBack({ periodUs }: Numbers, cost: number, nowUs: number): void {
    this.#moveTo(periodUs, nowUs);
    const fromCurrent = Math.min(cost, this.#current);
    this.#current -= fromCurrent;
    this.#previous = Math.max(0, this.#previous - (cost - fromCurrent));
  }

  giveBackTaken(limit: Numbers, cost: number, taken: Taken, nowUs: number): void {
    this.#moveTo(limit.periodUs, nowUs);
    const takenIn = taken.atUs - (taken.atUs % limit.periodUs);
    if (takenIn === this.#startUs) this.giveBack(limit, cost, nowUs);
    else if (takenIn + limit.periodUs === this.#startUs) this.#previous = Math.max(0, this.#previous - cost);
  }

  /** Returns the counts at a time. A window in the future was charged before the clock was set back, and does not count. */
  #at(periodUs: number, nowUs: number): { startUs: number; current: number; previous: number } {
    const startUs = nowUs - (nowUs % periodUs);
    if (this.#startUs === startUs) return { startUs, current: this.#current, previous: this.#previous };
    return { startUs, current: 0, previous: this.#startUs + periodUs === startUs ? this.#current : 0 };
  }

  #moveTo(periodUs: number, nowUs: number): void {
    const { startUs, current, previous } = this.#at(periodUs, nowUs);
    this.#startUs = startUs;
    this.#current = current;
    this.#previous = previous;
  }
}

function resetAfter(current: number, previous: number, leftUs: number, periodUs: number): number {
  if (current > 0) return leftUs + periodUs;
  return previous > 0 ? leftUs : 0;
}

/** Returns the time until at most `used` units count: in this window as the previous one fades, else in the next. */
function retryAfter(
  { current, previous }: { current: number; previous: number },
  used: number,
  leftUs: number,
  periodUs: number,
): number {
  const overlapUs = (room: number, count: number): number => Math.min(mulDivFloor(room, periodUs, count), periodUs);
  if (current <= used) return leftUs - overlapUs(used - current, previous);
  return leftUs + periodUs - overlapUs(used, current);
}
