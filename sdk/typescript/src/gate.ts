import { TidegateError } from './errors.js';
import { Lane, type Start } from './lane.js';
import { isDenial, type Learned } from './learn.js';

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
  readonly deadlineAt: number;
  readonly release: (start: Start) => void;
  readonly reject: (error: unknown) => void;
}

/** The requests to one host that wait for their turn, first come, first served. */
export class Gate {
  readonly #lane = new Lane();
  #last: Learned | undefined;
  #waiting: Waiter[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly now: () => number) {}

  /** What the last answer that told anything did; undefined before the first answer. */
  get learned(): Learned | undefined {
    return this.#lane.learned ?? this.#last;
  }

  /** How long a request would wait that comes now, unless an answer changes it. */
  get delayMs(): number {
    return Math.max(0, Math.ceil(this.#lane.readyAt(this.now()) - this.now()));
  }

  /** Takes in what the answer to a request told. */
  respond(start: Start, status: number, learned: Learned): void {
    this.#last = learned;
    this.#lane.respond(start, learned, { denied: isDenial(status, learned), now: this.now() });
    this.#pump();
  }

  /** Notes that a request has no answer. */
  fail(start: Start): void {
    this.#lane.fail(start, this.now());
    this.#pump();
  }

  /**
   * Waits for a turn; whoever gets it tells how it ended by `respond` or `fail`.
   *
   * @throws {PacingDeadlineError} as soon as it is clear that the turn comes too late.
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
    let readyAt = this.#lane.readyAt(now);
    for (; readyAt <= now && this.#waiting.length > 0; readyAt = this.#lane.readyAt(now)) {
      this.#waiting.shift()?.release(this.#lane.start(now));
    }
    this.#rejectLate(now, readyAt);
    if (this.#waiting.length === 0) return;
    const nextAt = Math.min(readyAt, ...this.#waiting.map(({ deadlineAt }) => deadlineAt));
    this.#timer = setTimeout(() => this.#pump(), Math.min(Math.max(1, Math.ceil(nextAt - now)), LONGEST_MS));
  }

  /** Whoever is sure to wait beyond its deadline hears of it now. */
  #rejectLate(now: number, readyAt: number): void {
    // While an answer is awaited, the wait may yet turn out to be shorter, but for what the server forbade.
    const surelyUntil = this.#lane.awaitsResponse ? this.#lane.blockedUntil : readyAt;
    this.#waiting = this.#waiting.filter((waiter) => {
      if (surelyUntil <= waiter.deadlineAt && now < waiter.deadlineAt) return true;
      waiter.reject(new PacingDeadlineError(Math.max(0, readyAt - now)));
      return false;
    });
  }
}
