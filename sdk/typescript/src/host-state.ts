import { spreadS, hasLimitInfo, windowOf, type Learned } from './learn.js';

/** The start of a request. */
export interface Start {
  readonly number: number;
  readonly at: number;
  /** When its response or error came; undefined while it is in flight. */
  endedAt: number | undefined;
}

/** Own requests that are remembered, to tell when the first of them leaves the server's window. */
const MAX_STARTS = 1_000;
/** Milliseconds that others wait for the response to a request that was sent to find out how much is left. */
const PROBE_MS = 1_000;
/** Windows divided by the limit until the next request, at a server that refills little by little. */
const GRADUAL_STEPS = 1.5;

/**
 * What is known about the limits of one host, and when the next request to it may start. `vectors/README.md` of the
 * repository states the rules for every language. Times are milliseconds since the epoch, and passed in.
 */
export class HostState {
  /** What the last response with rate limit headers said. */
  learned: Learned | undefined;
  #learnedAt = -Infinity;
  #inFlight = 0;
  /** The requests that may start, as far as is known; undefined at first. */
  #left: number | undefined;
  #knownAt = -Infinity;
  #knownUntil = -Infinity;
  #blockedUntil = -Infinity;
  #lastStart = -Infinity;
  /** When the last request started while nothing was in flight. */
  #probeStart = -Infinity;
  #number = 0;
  #starts: Start[] = [];
  /** Whether the server refills little by little. */
  #gradual = false;
  /** Whether there were responses, and none had rate limit headers. */
  #silent = false;

  /** The time before which no request starts, whatever responses come. */
  get blockedUntil(): number {
    return this.#blockedUntil;
  }

  /** Returns when the next request may start, unless a response changes it before. */
  readyAt(now: number): number {
    const gapMs = this.learned && now < this.#knownUntil ? spreadS(this.learned) * 1_000 : 0;
    const spreadUntil = gapMs > 0 ? Math.max(this.#learnedAt, this.#lastStart) + gapMs : now;
    const waitsUntil = Math.max(now, this.#blockedUntil, spreadUntil);
    if (waitsUntil > now || this.#inFlight === 0) return waitsUntil;
    if (this.#left === undefined) return this.#silent ? now : Math.max(now, this.#probeStart + PROBE_MS);
    if (this.#left > 0) return now; // a reset never leaves less
    return now < this.#knownUntil ? this.#knownUntil : Math.max(now, this.#lastStart + PROBE_MS);
  }

  /** Whether a response may come that changes when the next request may start. */
  get awaitsResponse(): boolean {
    return this.#inFlight > 0;
  }

  /** Notes that a request starts now. */
  start(now: number): Start {
    if (this.#inFlight === 0) this.#probeStart = now;
    this.#number += 1;
    this.#inFlight += 1;
    this.#lastStart = now;
    if (this.#left !== undefined) this.#left -= 1;
    const start: Start = { number: this.#number, at: now, endedAt: undefined };
    this.#starts.push(start);
    if (this.#starts.length > MAX_STARTS) this.#starts.shift();
    return start;
  }

  /** Notes that a request ended without a response. It is not known whether the server counted it. */
  fail(start: Start, now: number): void {
    this.#inFlight -= 1;
    start.endedAt = now;
  }

  /** Updates the state from a response. One without rate limit headers changes nothing. */
  respond(start: Start, learned: Learned, { denied, now }: { readonly denied: boolean; readonly now: number }): void {
    this.fail(start, now);
    if (denied) {
      this.#starts = this.#starts.filter((one) => one !== start);
      this.#gradual = !this.#gradual;
    }
    if (!hasLimitInfo(learned)) {
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

  /** Estimates how many requests may start; the server had not seen all of them when it responded. */
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

  /** Returns when units are available again, now that none are left. */
  #moreAt(start: Start, learned: Learned, resetMs: number, now: number): number {
    const limit = learned.limit ?? 0;
    const windowMs = (windowOf(learned) ?? 0) * 1_000;
    if (limit === 0 || windowMs === 0 || resetMs < windowMs || limit > MAX_STARTS) return now + resetMs;
    // The reset is when all units are back. Our own requests tell when the first of them is.
    const ends = this.#starts.map(({ endedAt }) => endedAt ?? now).filter((end) => end + windowMs > start.at);
    if (ends.length < limit) this.#gradual = true;
    if (this.#gradual) return now + Math.min(resetMs, (GRADUAL_STEPS * windowMs) / limit);
    return (ends.at(-limit) ?? now) + windowMs;
  }
}
