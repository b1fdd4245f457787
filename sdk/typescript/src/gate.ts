import { TidegateError } from './errors.js';
import { delayMs, gapMs, type Learned } from './learn.js';

/** The wait would end after the deadline, so the request was not sent. */
export class PacingDeadlineError extends TidegateError {
  override name = 'PacingDeadlineError';

  constructor(
    /** How long it would have had to wait. */
    readonly waitMs: number,
  ) {
    super(`the limit of the server allows the next request in ${Math.ceil(waitMs)} ms, which is after the deadline`);
  }
}

/** A timer for longer goes off at once. */
export const LONGEST_MS = 2 ** 31 - 1;

interface Waiter {
  readonly since: number;
  readonly deadlineAt: number;
  readonly release: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Lets requests to one host through, in order, no sooner than what was learnt allows. Those that had to
 * wait go one after the other, not all at once as the wait ends.
 */
export class Gate {
  #learned: Learned | undefined;
  #learnedAt = 0;
  #releasedAt = 0;
  #waiting: Waiter[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly now: () => number) {}

  /** What the last answer told; undefined before the first. */
  get learned(): Learned | undefined {
    return this.#learned;
  }

  /** How long a request would wait that comes now. */
  get delayMs(): number {
    return this.#delayMs(this.#waiting[0]?.since ?? this.now());
  }

  /** How long the first of those that wait, since then, still has to. */
  #delayMs(since: number): number {
    if (!this.#learned) return 0;
    const now = this.now();
    const own = delayMs(this.#learned, now - this.#learnedAt);
    // One was let through, and no answer has told yet what became of it.
    const unanswered = this.#releasedAt > this.#learnedAt && this.#counts(this.#learned, since, now);
    return unanswered ? Math.max(own, Math.ceil(this.#releasedAt + gapMs(this.#learned) - now), 0) : own;
  }

  /** Whether the gap between requests is still kept: what was learnt ends, and nobody else slows down for it. */
  #counts(learned: Learned, since: number, now: number): boolean {
    const spread = learned.remaining !== 0 && !learned.retryAfterS;
    if (spread) return now - this.#learnedAt < (learned.resetAfterS ?? 0) * 1_000;
    return since < this.#learnedAt + delayMs(learned, 0);
  }

  /** Takes in what an answer told. */
  learn(learned: Learned): void {
    this.#learned = learned;
    this.#learnedAt = this.now();
    this.#pump();
  }

  /**
   * Waits for a turn.
   *
   * @throws {PacingDeadlineError} as soon as it is clear that the turn comes too late.
   */
  enter(deadlineAt: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        this.#waiting = this.#waiting.filter((one) => one !== waiter);
        reject(signal?.reason);
        this.#pump();
      };
      const leave = (): void => signal?.removeEventListener('abort', abort);
      const waiter: Waiter = {
        since: this.now(),
        deadlineAt,
        release: () => {
          leave();
          resolve();
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      };
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiting.push(waiter);
      this.#pump();
    });
  }

  #pump(): void {
    clearTimeout(this.#timer);
    for (let wait = this.delayMs; wait <= 0; wait = this.delayMs) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#releasedAt = this.now();
      next.release();
    }
    this.#rejectLate();
    if (this.#waiting.length > 0) this.#timer = setTimeout(() => this.#pump(), Math.min(this.delayMs, LONGEST_MS));
  }

  /** Whoever would wait beyond its deadline hears of it now. */
  #rejectLate(): void {
    const first = this.delayMs;
    const gap = this.#learned ? gapMs(this.#learned) : 0;
    const stay: Waiter[] = [];
    for (const waiter of this.#waiting) {
      const wait = first + stay.length * gap;
      if (this.now() + wait > waiter.deadlineAt) waiter.reject(new PacingDeadlineError(wait));
      else stay.push(waiter);
    }
    this.#waiting = stay;
  }
}
