import { MAX_COUNT, type Counter, type Numbers, type Taken, type Verdict } from './counter.js';

/** The longest time that an overdrawn bucket takes to drain: ten years. */
const MAX_DRAIN_US = BigInt(10 * 365 * 86_400) * 1_000_000n;

/** What a bucket owed when it was last charged, in units x microseconds, so that nothing is rounded. */
interface Written {
  readonly debt: bigint;
  readonly atUs: number;
  /** The rate at which it drains: `requests` when it was last charged. */
  readonly rate: bigint;
  readonly burst: bigint;
  /** For a bucket that owes more than it holds: the number of binary digits of the time to drain it. */
  readonly overdrawnDigits: number | undefined;
}

/** A bucket that drains steadily and holds `burst`: `token_bucket`, `gcra`, and `leaky_bucket` as a meter. */
export class Bucket implements Counter {
  #written: Written = { debt: 0n, atUs: 0, rate: 0n, burst: 0n, overdrawnDigits: undefined };

  assess(limit: Numbers, cost: number, nowUs: number): Verdict {
    const requests = BigInt(limit.requests);
    // A limit of 0 denies every request, whatever its burst.
    if (requests === 0n) return { allowed: cost === 0, remaining: 0, resetAfterUs: 0, retryAfterUs: null };
    const periodUs = BigInt(limit.periodUs);
    const capacity = BigInt(limit.burst) * periodUs;
    const debt = this.#debt(limit, nowUs);
    const after = debt + BigInt(cost) * periodUs;
    const remaining = (owed: bigint): number => (owed >= capacity ? 0 : Number((capacity - owed) / periodUs));
    if (after <= capacity) {
      return { allowed: true, remaining: remaining(after), resetAfterUs: divCeil(after, requests), retryAfterUs: null };
    }
    return {
      allowed: false,
      remaining: remaining(debt),
      resetAfterUs: divCeil(debt, requests),
      retryAfterUs: cost > limit.burst ? null : divCeil(after - capacity, requests),
    };
  }

  take(limit: Numbers, cost: number, nowUs: number): void {
    const debt = this.#debt(limit, nowUs);
    const capacity = capacityOf(limit);
    const after = debt + debtOf(limit, cost);
    // A full bucket stays full, and what is overdrawn stays so.
    const most = debt > capacity ? debt : capacity;
    this.#write(limit, after < most ? after : most, nowUs);
  }

  overdraw(limit: Numbers, cost: number, nowUs: number): void {
    this.#write(limit, this.#debt(limit, nowUs) + debtOf(limit, cost), nowUs);
  }

  giveBack(limit: Numbers, cost: number, nowUs: number): void {
    this.#refund(limit, debtOf(limit, cost), nowUs);
  }

  /** What may have drained since the charge is not given back: an empty bucket saves nothing. */
  giveBackTaken(limit: Numbers, cost: number, taken: Taken, nowUs: number): void {
    const requests = BigInt(limit.requests);
    const drained = BigInt(Math.max(0, nowUs - taken.atUs)) * requests;
    const left = debtOf(limit, cost) - drained;
    const owed = BigInt(Math.max(0, taken.clearAtUs - nowUs)) * requests;
    const given = left < owed ? left : owed;
    if (given > 0n) this.#refund(limit, given, nowUs);
  }

  adoptNumbers(limit: Numbers, nowUs: number): void {
    const { rate, burst } = this.#written;
    const same = rate === BigInt(limit.requests) && burst === BigInt(limit.burst);
    if (limit.requests === 0 || (same && this.#owed(nowUs) <= capacityOf(limit))) return;
    const debt = this.#debt(limit, nowUs);
    if (debt > 0n) this.#write(limit, debt, nowUs);
  }

  #refund(limit: Numbers, given: bigint, nowUs: number): void {
    const debt = this.#debt(limit, nowUs);
    this.#write(limit, debt > given ? debt - given : 0n, nowUs);
  }

  /** Returns what is owed, even if the bucket cannot hold it. */
  #owed(nowUs: number): bigint {
    const { debt, atUs, rate } = this.#written;
    const left = debt - BigInt(nowUs - atUs) * rate;
    return left > 0n ? left : 0n;
  }

  /**
   * Returns the debt now. It can be more than the bucket holds for three reasons: the bucket was overdrawn, and all of it
   * is owed; the limit was lowered, and the bucket counts as full; or the clock was set back, and it counts as empty.
   */
  #debt(limit: Numbers, nowUs: number): bigint {
    const debt = this.#owed(nowUs);
    const capacity = capacityOf(limit);
    if (debt <= capacity) return debt;
    const { overdrawnDigits, burst, rate } = this.#written;
    if (overdrawnDigits !== undefined) {
      const most = BigInt(limit.requests) * MAX_DRAIN_US;
      const drainsUs = rate === 0n ? 0n : debt / rate;
      if (drainsUs >> BigInt(overdrawnDigits) > 0n) return 0n;
      return debt < most ? debt : most;
    }
    return debt > burst * BigInt(limit.periodUs) ? 0n : capacity;
  }

  #write(limit: Numbers, debt: bigint, nowUs: number): void {
    const rate = BigInt(limit.requests);
    // A limit of 0 leaves the bucket as it is, for the time after the ban.
    if (rate === 0n) return;
    const most = rate * MAX_DRAIN_US;
    const kept = debt < most ? debt : most;
    const overdrawnDigits = kept > capacityOf(limit) ? (kept / rate).toString(2).length : undefined;
    this.#written = { debt: kept, atUs: nowUs, rate, burst: BigInt(limit.burst), overdrawnDigits };
  }
}

function capacityOf({ burst, periodUs }: Numbers): bigint {
  return BigInt(burst) * BigInt(periodUs);
}

function debtOf({ periodUs }: Numbers, cost: number): bigint {
  return BigInt(Math.min(cost, MAX_COUNT)) * BigInt(periodUs);
}

function divCeil(debt: bigint, requests: bigint): number {
  return Number((debt + requests - 1n) / requests);
}
