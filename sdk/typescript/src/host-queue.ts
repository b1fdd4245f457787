import { TidegateError } from './errors.js';
import { HostState, type Start } from './host-state.js';
import { isDenial, type Learned } from './learn.js';

/** A request would have to wait until after the deadline, so it was not sent. */
export class PacingDeadlineError extends TidegateError {
  override name = 'PacingDeadlineError';

  constructor(
    /** Milliseconds that it would have had to wait. */
    readonly waitMs: number,
  ) {
    super(`the limit of the server allows the next request in ${Math.ceil(waitMs)} ms, which is after the deadline`);
  }
}

/** The longest delay of a timer of Node; a longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

interface Waiter {
  readonly deadlineAt: number;
  readonly release: (start: Start) => void;
  readonly reject: (error: unknown) => void;
}

/** Requests to one host that wait for their turn, first come, first served. */
export class HostQueue {
  readonly #state = new HostState();
  #last: Learned | undefined;
  #waiting: Waiter[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly now: () => number) {}

  /** What the last response with rate limit headers said; undefined before the first response. */
  get learned(): Learned | undefined {
    return this.#state.learned ?? this.#last;
  }

  /** The milliseconds that a new request would wait, unless a response changes it. */
  get delayMs(): number {
    return Math.max(0, Math.ceil(this.#state.readyAt(this.now()) - this.now()));
  }

  /** Updates the state from the response to a request. */
  respond(start: Start, status: number, learned: Learned): void {
    this.#last = learned;
    this.#state.respond(start, learned, { denied: isDenial(status, learned), now: this.now() });
    this.#pump();
  }

  /** Notes that a request ended without a response. */
  fail(start: Start): void {
    this.#state.fail(start, this.now());
    this.#pump();
  }

  /**
   * Waits for the turn of a request. The caller then sends it, and reports the result by `respond` or `fail`.
   *
   * @throws {PacingDeadlineError} as soon as it is clear that the turn would come after the deadline.
   */
  enter(deadlineAt: number, signal: AbortSignal | undefined): Promise<Start> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        this.#waiting = this.#waiting.filter((one) => one !== waiter);
        reject(signal?.reason);
        this.#pump();
      };
      const leave = (): void => signal?.removeEventListener('abort', abort);
      const waiter: Waiter = {
        deadlineAt,
        release: (start) => {
          leave();
          resolve(start);
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
    const now = this.now();
    let readyAt = this.#state.readyAt(now);
    for (; readyAt <= now && this.#waiting.length > 0; readyAt = this.#state.readyAt(now)) {
      this.#waiting.shift()?.release(this.#state.start(now));
    }
    this.#rejectLate(now, readyAt);
    if (this.#waiting.length === 0) return;
    const nextAt = Math.min(readyAt, ...this.#waiting.map(({ deadlineAt }) => deadlineAt));
    this.#timer = setTimeout(() => this.#pump(), Math.min(Math.max(1, Math.ceil(nextAt - now)), MAX_TIMER_MS));
  }

  /** Rejects the requests whose turn is certain to come after their deadline. */
  #rejectLate(now: number, readyAt: number): void {
    // A response that is awaited may shorten the wait, but not the time that the server blocked.
    const surelyUntil = this.#state.awaitsResponse ? this.#state.blockedUntil : readyAt;
    this.#waiting = this.#waiting.filter((waiter) => {
      if (surelyUntil <= waiter.deadlineAt && now < waiter.deadlineAt) return true;
      waiter.reject(new PacingDeadlineError(Math.max(0, readyAt - now)));
      return false;
    });
  }
}
