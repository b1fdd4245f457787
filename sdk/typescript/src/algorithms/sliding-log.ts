import { MAX_COUNT, type Counter, type Numbers, type Taken, type Verdict } from './counter.js';

interface Stamp {
  readonly atUs: number;
  cost: number;
}

/** A timestamp per request, which is exact over any window. There are never more of them than the limit has units. */
export class SlidingLog implements Counter {
  /** Oldest first, one per microsecond. */
  #stamps: Stamp[] = [];
  #total = 0;

  assess(limit: Numbers, cost: number, nowUs: number): Verdict {
    const { requests, periodUs } = limit;
    const live = this.#live(limit, nowUs);
    const used = live === this.#stamps ? this.#total : live.reduce((sum, stamp) => sum + stamp.cost, 0);
    const leavesUs = (stamp: Stamp | undefined): number => (stamp ? periodUs - (nowUs - stamp.atUs) : 0);
    if (cost <= requests - used) {
      const resetAfterUs = cost === 0 ? leavesUs(live.at(-1)) : periodUs;
      return { allowed: true, remaining: requests - used - cost, resetAfterUs, retryAfterUs: null };
    }
    let needed = cost - (requests - used);
    const frees = live.find((stamp) => (needed -= stamp.cost) <= 0);
    return {
      allowed: false,
      remaining: Math.max(0, requests - used),
      resetAfterUs: leavesUs(live.at(-1)),
      retryAfterUs: cost > requests ? null : leavesUs(frees),
    };
  }

  take(limit: Numbers, cost: number, nowUs: number): void {
    this.#prune(limit, nowUs);
    const kept = Math.min(cost, limit.requests);
    if (kept === 0) return;
    this.#add(kept, nowUs);
    for (let over = this.#total - limit.requests; over > 0; over = this.#total - limit.requests) {
      const oldest = this.#stamps[0] as Stamp;
      if (oldest.cost > over) {
        oldest.cost -= over;
        this.#total -= over;
      } else {
        this.#dropOldest();
      }
    }
  }

  overdraw(limit: Numbers, cost: number, nowUs: number): void {
    this.#prune(limit, nowUs);
    const kept = Math.min(cost, MAX_COUNT - this.#total);
    if (kept <= 0 || limit.requests === 0) return;
    this.#add(kept, nowUs);
    while (this.#stamps.length > limit.requests) this.#dropOldest();
  }

  giveBack(limit: Numbers, cost: number, nowUs: number): void {
    this.#prune(limit, nowUs);
    for (let left = cost; ; ) {
      const newest = this.#stamps.at(-1);
      if (!newest) return;
      const given = Math.min(left, newest.cost);
      newest.cost -= given;
      this.#total -= given;
      left -= given;
      if (newest.cost > 0) return;
      this.#stamps.pop();
    }
  }

  giveBackTaken(limit: Numbers, cost: number, taken: Taken, nowUs: number): void {
    this.#prune(limit, nowUs);
    const stamp = this.#stamps.find(({ atUs }) => atUs === taken.atUs);
    if (!stamp) return;
    const given = Math.min(cost, stamp.cost);
    stamp.cost -= given;
    this.#total -= given;
    if (stamp.cost === 0) this.#stamps = this.#stamps.filter((one) => one !== stamp);
  }

  /** Returns the stamps that count. None do if the newest is in the future: the clock was set back. */
  #live({ periodUs }: Numbers, nowUs: number): readonly Stamp[] {
    const newest = this.#stamps.at(-1);
    if (!newest || newest.atUs > nowUs) return [];
    const first = this.#stamps.findIndex(({ atUs }) => nowUs - atUs < periodUs);
    if (first === 0) return this.#stamps;
    return first < 0 ? [] : this.#stamps.slice(first);
  }

  #prune(limit: Numbers, nowUs: number): void {
    const live = this.#live(limit, nowUs);
    if (live === this.#stamps) return;
    this.#stamps = [...live];
    this.#total = live.reduce((sum, stamp) => sum + stamp.cost, 0);
  }

  #add(cost: number, nowUs: number): void {
    const newest = this.#stamps.at(-1);
    if (newest?.atUs === nowUs) newest.cost += cost;
    else this.#stamps.push({ atUs: nowUs, cost });
    this.#total += cost;
  }

  #dropOldest(): void {
    this.#total -= this.#stamps.shift()?.cost ?? 0;
  }
}
