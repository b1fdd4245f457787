import { mulDivCeil, mulDivFloor, MAX_COUNT, type Counter, type Numbers, type Taken, type Verdict } from './counter.js';

/** A window that is divided into buckets, kept as a ring. */
export class SubWindows implements Counter {
  /** The number of the newest bucket since the epoch. */
  #newest = 0;
  /** Bucket `i` is at `i % length`. */
  readonly #counts: number[];

  constructor({ buckets, periodUs }: Numbers) {
    // A bucket is not shorter than a microsecond, the unit of time.
    this.#counts = new Array<number>(Math.min(buckets, periodUs)).fill(0);
  }

  assess(limit: Numbers, cost: number, nowUs: number): Verdict {
    const { requests } = limit;
    const bucket = this.#bucketAt(limit, nowUs);
    const live = this.#live(bucket);
    const used = live.reduce((sum, index) => sum + this.#count(index), 0);
    const leavesUs = (index: number | undefined): number =>
      index === undefined ? 0 : Math.max(0, this.#startOf(index + this.#counts.length, limit) - nowUs);
    const newestUsed = live.findLast((index) => this.#count(index) > 0);
    if (cost <= requests - used) {
      const resetAfterUs = leavesUs(cost === 0 ? newestUsed : bucket);
      return { allowed: true, remaining: requests - used - cost, resetAfterUs, retryAfterUs: null };
    }
    let needed = cost - (requests - used);
    const frees = live.find((index) => (needed -= this.#count(index)) <= 0);
    return {
      allowed: false,
      remaining: Math.max(0, requests - used),
      resetAfterUs: leavesUs(newestUsed),
      retryAfterUs: cost > requests ? null : leavesUs(frees),
    };
  }

  take(limit: Numbers, cost: number, nowUs: number): void {
    const bucket = this.#advance(limit, nowUs);
    const total = this.#counts.reduce((sum, count) => sum + count, 0);
    this.#counts[bucket % this.#counts.length] = this.#count(bucket) + Math.min(cost, Math.max(0, MAX_COUNT - total));
  }

  overdraw(limit: Numbers, cost: number, nowUs: number): void {
    this.take(limit, cost, nowUs);
  }

  giveBack(limit: Numbers, cost: number, nowUs: number): void {
    const bucket = this.#advance(limit, nowUs);
    let left = cost;
    for (const index of this.#live(bucket).reverse()) left -= this.#giveBackTo(index, left);
  }

  giveBackTaken(limit: Numbers, cost: number, taken: Taken, nowUs: number): void {
    const bucket = this.#advance(limit, nowUs);
    const takenIn = this.#bucketAt(limit, taken.atUs);
    if (this.#live(bucket).includes(takenIn)) this.#giveBackTo(takenIn, cost);
  }

  #giveBackTo(bucket: number, cost: number): number {
    const given = Math.min(cost, this.#count(bucket));
    this.#counts[bucket % this.#counts.length] = this.#count(bucket) - given;
    return given;
  }

  #count(bucket: number): number {
    return this.#counts[bucket % this.#counts.length] ?? 0;
  }

  #bucketAt({ periodUs }: Numbers, nowUs: number): number {
    return mulDivFloor(nowUs, this.#counts.length, periodUs);
  }

  #startOf(bucket: number, { periodUs }: Numbers): number {
    return mulDivCeil(bucket, periodUs, this.#counts.length);
  }

  /** Returns the buckets that count while `bucket` is the current one, oldest first. None do if the clock was set back. */
  #live(bucket: number): number[] {
    if (this.#newest > bucket) return [];
    const oldest = Math.max(0, bucket + 1 - this.#counts.length);
    return Array.from({ length: Math.max(0, this.#newest + 1 - oldest) }, (_, index) => oldest + index);
  }

  /** Makes the current bucket the newest, and empties those that have expired. */
  #advance(limit: Numbers, nowUs: number): number {
    const bucket = this.#bucketAt(limit, nowUs);
    const length = this.#counts.length;
    if (this.#newest > bucket || bucket - this.#newest >= length) this.#counts.fill(0);
    else for (let index = this.#newest + 1; index <= bucket; index += 1) this.#counts[index % length] = 0;
    this.#newest = bucket;
    return bucket;
  }
}
