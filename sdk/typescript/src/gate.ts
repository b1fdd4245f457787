import { TidegateError } from './errors.js';
import { delayMs, gapMs, tellsSomething, type Learned } from './learn.js';

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

/** What an answer told, and when. */
interface Known {
  readonly learned: Learned;
  readonly at: number;
}

/**
 * Lets requests to one host through, in order, no sooner than what was learnt allows. Those that had to
 * wait go one after the other, not all at once as the wait ends.
 */
export class Gate {
  #last: Known | undefined;
  /** Asked for the wait that ends last. Answers that come meanwhile do not shorten it. */
  #longest: Known | undefined;
  #releasedAt = 0;
  #waiting: Waiter[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly now: () => number) {}

  /** What the last answer that told anything did; undefined before the first. */
  get learned(): Learned | undefined {
    return this.#last?.learned;
  }

  /** How long a request would wait that comes now. */
  get delayMs(): number {
    const since = this.#waiting[0]?.since ?? this.now();
    return Math.max(0, ...this.#known().map((known) => this.#delayMs(known, since)));
  }

  #known(): Known[] {
    return [this.#last, this.#longest].filter((known) => known !== undefined);
  }

  /** How long the first of those that wait, since then, still has to. */
  #delayMs({ learned, at }: Known, since: number): number {
    const now = this.now();
    const own = delayMs(learned, now - at);
    // One was let through, and no answer has told yet what became of it.
    const unanswered = this.#releasedAt > at && this.#counts({ learned, at }, since, now);
    return unanswered ? Math.max(own, Math.ceil(this.#releasedAt + gapMs(learned) - now)) : own;
  }

  /** Whether the gap between requests is still kept: what was learnt ends, and nobody else slows down for it. */
  #counts({ learned, at }: Known, since: number, now: number): boolean {
    const spread = learned.remaining !== 0 && !learned.retryAfterS;
    if (spread) return now - at < (learned.resetAfterS ?? 0) * 1_000;
    return since < endOf({ learned, at });
  }

  /** Takes in what an answer told: nothing changes nothing. */
  learn(learned: Learned): void {
    if (this.#last && !tellsSomething(learned)) return;
    const known = { learned, at: this.now() };
    this.#last = known;
    if (!this.#longest || endOf(this.#longest) <= endOf(known)) this.#longest = known;
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
    const gap = Math.max(0, ...this.#known().map(({ learned }) => gapMs(learned)));
    const stay: Waiter[] = [];
    for (const waiter of this.#waiting) {
      const wait = first + stay.length * gap;
      if (this.now() + wait > waiter.deadlineAt) waiter.reject(new PacingDeadlineError(wait));
      else stay.push(waiter);
    }
    this.#waiting = stay;
  }
}

/** When the wait ends that an answer asked for. */
function endOf({ learned, at }: Known): number {
  return at + delayMs(learned, 0);
}
