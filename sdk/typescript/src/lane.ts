import { spreadS, tellsSomething, windowOf, type Learned } from './learn.js';

/** A request that was started. */
export interface Start {
  readonly number: number;
  readonly at: number;
  /** When it had a response or an error; undefined while it is in flight. */
  endedAt: number | undefined;
}

/** So many own requests are remembered, to tell when the first of them leaves the server's window. */
const MOST_STARTS = 1_000;
/** So long the others wait for the response to a request that was sent to find out how much is left. */
const SCOUT_MS = 1_000;
/** A server that gives back little by little is asked again after so many of the steps its limit grants. */
const GRADUAL_STEPS = 1.5;

/**
 * What is known of one host, and when the next request to it may start. `vectors/README.md` of the repository
 * has the rules, the same in every language. Times are milliseconds since the epoch, and passed in.
 */
export class Lane {
  /** What the last response that told something did. */
  learned: Learned | undefined;
  #learnedAt = -Infinity;
  #inFlight = 0;
  /** How many may start as far as is known; undefined at first. */
  #left: number | undefined;
  #knownAt = -Infinity;
  #knownUntil = -Infinity;
  #blockedUntil = -Infinity;
  #lastStart = -Infinity;
  /** When the last request started while nothing was in flight. */
  #scoutStart = -Infinity;
  #number = 0;
  #starts: Start[] = [];
  /** Whether the server gives back little by little. */
  #gradual = false;
  /** Whether there was a response, and none so far told anything. */
  #silent = false;

  /** Nothing starts before, whatever responses come. */
  get blockedUntil(): number {
    return this.#blockedUntil;
  }

  /** Returns when the next request may start, unless a response changes it before. */
  readyAt(now: number): number {
    const gapMs = this.learned && now < this.#knownUntil ? spreadS(this.learned) * 1_000 : 0;
    const spreadUntil = gapMs > 0 ? Math.max(this.#learnedAt, this.#lastStart) + gapMs : now;
    const waitsUntil = Math.max(now, this.#blockedUntil, spreadUntil);
    if (waitsUntil > now || this.#inFlight === 0) return waitsUntil;
    if (this.#left === undefined) return this.#silent ? now : Math.max(now, this.#scoutStart + SCOUT_MS);
    if (this.#left > 0) return now; // after a reset there is not less
    return now < this.#knownUntil ? this.#knownUntil : Math.max(now, this.#lastStart + SCOUT_MS);
  }

  /** Whether a response may come that changes when the next request may start. */
  get awaitsResponse(): boolean {
    return this.#inFlight > 0;
  }

  /** Notes that a request starts now. */
  start(now: number): Start {
    if (this.#inFlight === 0) this.#scoutStart = now;
    this.#number += 1;
    this.#inFlight += 1;
    this.#lastStart = now;
    if (this.#left !== undefined) this.#left -= 1;
    const start: Start = { number: this.#number, at: now, endedAt: undefined };
    this.#starts.push(start);
    if (this.#starts.length > MOST_STARTS) this.#starts.shift();
    return start;
  }

  /** Notes that a request has no response. Whether it was counted is not known. */
  fail(start: Start, now: number): void {
    this.#inFlight -= 1;
    start.endedAt = now;
  }

  /** Takes in what a response tells. One that tells nothing changes nothing. */
  respond(start: Start, learned: Learned, { denied, now }: { readonly denied: boolean; readonly now: number }): void {
    this.fail(start, now);
    if (denied) {
      this.#starts = this.#starts.filter((one) => one !== start);
      this.#gradual = !this.#gradual;
    }
    if (!tellsSomething(learned)) {
      this.#silent = this.learned === undefined;
      return;
    }
    this.#silent = false;
    this.learned = learned;
    this.#learnedAt = now;
    const { retryAfterS, remaining, resetAfterS } = learned;
    if (retryAfterS) {
      this.#block(now + retryAfterS * 1_000);
    } else if (remaining !== null && resetAfterS !== null) {
      this.#count(start, remaining, now);
      this.#knownUntil = now + resetAfterS * 1_000;
      if (remaining === 0) this.#block(this.#moreAt(start, learned, resetAfterS * 1_000, now));
    }
  }

  #block(until: number): void {
    this.#left = 0;
    this.#knownUntil = until;
    this.#blockedUntil = Math.max(this.#blockedUntil, until);
  }

  /** Estimates how many may start: the server may not have seen all when it wrote what remains. */
  #count(start: Start, remaining: number, now: number): void {
    const since = start.at - (now - start.at);
    const beside = this.#starts.filter((one) => one.endedAt === undefined && one.number < start.number && one.at >= since).length;
    const estimate = remaining - (this.#number - start.number) - beside;
    if (this.#left === undefined || start.at >= this.#knownAt) {
      this.#left = estimate;
      this.#knownAt = now;
    } else {
      this.#left = Math.min(this.#left, estimate);
    }
  }

  /** Returns when there is more, now that nothing is left. */
  #moreAt(start: Start, learned: Learned, resetMs: number, now: number): number {
    const limit = learned.limit ?? 0;
    const windowMs = (windowOf(learned) ?? 0) * 1_000;
    if (limit === 0 || windowMs === 0 || resetMs < windowMs || limit > MOST_STARTS) return now + resetMs;
    // What is told is when all is back. The own requests tell when the first of them is.
    const ends = this.#starts.map(({ endedAt }) => endedAt ?? now).filter((end) => end + windowMs > start.at);
    if (ends.length < limit) this.#gradual = true;
    if (this.#gradual) return now + Math.min(resetMs, (GRADUAL_STEPS * windowMs) / limit);
    return (ends.at(-limit) ?? now) + windowMs;
  }
}
