import type { Answer } from './decision.js';
import { failureOf } from './decision.js';
import { RefusedError, UnavailableError } from './errors.js';
import { batchElements } from './raw-json.js';

/** How checks are gathered. */
export interface BatcherOptions {
  /** Sends a body to `/v1/check`, and waits at most so long for the answer. */
  readonly send: (body: string, timeoutMs: number) => Promise<Answer>;
  /** Batches under way at the same time. */
  readonly maxInFlight: number;
}

/** As many as the service takes. */
const MOST_CHECKS = 1_000;
/** A quarter of what the service takes in one body unless told, in UTF-16 units. */
const MOST_LENGTH = 256 * 1024;
/** So many may wait to be sent; whoever comes then takes the fallback at once. */
const MOST_WAITING = 10_000;

interface Waiting {
  readonly body: string;
  /** When it is too late, by `performance.now()`. */
  readonly until: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
  timer: NodeJS.Timeout | undefined;
  ended: boolean;
}

/**
 * Sends checks that are made at the same time as one request. The first goes as soon as the code that
 * made it yields; while `maxInFlight` are under way, others gather. There is no timer that adds a wait.
 */
export class Batcher {
  readonly #send: BatcherOptions['send'];
  readonly #maxInFlight: number;
  #waiting: Waiting[] = [];
  #inFlight = 0;
  #scheduled = false;

  constructor({ send, maxInFlight }: BatcherOptions) {
    this.#send = send;
    this.#maxInFlight = maxInFlight;
  }

  /**
   * Asks for a decision; `body` is the check as JSON.
   *
   * @throws {UnavailableError} after the deadline, whichever batch the check is in.
   */
  ask(body: string, deadlineMs: number): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= MOST_WAITING) {
        reject(new UnavailableError('overload', `${MOST_WAITING} checks wait already`, { sent: false }));
        return;
      }
      const one: Waiting = { body, until: performance.now() + deadlineMs, resolve, reject, timer: undefined, ended: false };
      one.timer = setTimeout(() => {
        end(one);
        reject(new UnavailableError('timeout', `the service did not answer within ${deadlineMs} ms`));
      }, deadlineMs);
      this.#waiting.push(one);
      this.#schedule();
    });
  }

  /** Gives up on all that were not sent yet. */
  rejectWaiting(error: Error): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const one of waiting) fail(one, error);
  }

  #schedule(): void {
    if (this.#scheduled || this.#inFlight >= this.#maxInFlight) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      while (this.#inFlight < this.#maxInFlight) {
        const batch = this.#take();
        if (batch.length === 0) return;
        void this.#fly(batch);
      }
    });
  }

  /** The next that still wait for an answer, as many as fit. */
  #take(): Waiting[] {
    const batch: Waiting[] = [];
    let length = 0;
    let taken = 0;
    for (const one of this.#waiting) {
      if (batch.length === MOST_CHECKS || (batch.length > 0 && length + one.body.length > MOST_LENGTH)) break;
      taken += 1;
      if (one.ended) continue;
      batch.push(one);
      length += one.body.length;
    }
    this.#waiting.splice(0, taken);
    return batch;
  }

  async #fly(batch: Waiting[]): Promise<void> {
    this.#inFlight += 1;
    try {
      await this.#settle(batch);
    } finally {
      this.#inFlight -= 1;
      if (this.#waiting.length > 0) this.#schedule();
    }
  }

  async #settle(batch: Waiting[]): Promise<void> {
    const [first] = batch;
    const alone = batch.length === 1 && first !== undefined;
    const body = alone ? first.body : `[${batch.map((one) => one.body).join(',')}]`;
    // Each has its own deadline besides; after the last of them nobody waits any more.
    const timeoutMs = Math.max(1, Math.max(...batch.map((one) => one.until)) - performance.now());
    let answer: Answer;
    try {
      answer = await this.#send(body, timeoutMs);
    } catch (error) {
      for (const one of batch) fail(one, error as Error);
      return;
    }
    if (alone) succeed(first, answer);
    else await this.#distribute(batch, answer);
  }

  async #distribute(batch: Waiting[], answer: Answer): Promise<void> {
    if (answer.status !== 200) {
      const failure = failureOf(answer);
      // Nothing of a batch that is refused as a whole was charged. It may be too long for this service,
      // or one check broke it; the others must not pay for that.
      if (failure instanceof RefusedError && (failure.status === 400 || failure.status === 413)) {
        const half = Math.ceil(batch.length / 2);
        await Promise.all([this.#settle(batch.slice(0, half)), this.#settle(batch.slice(half))]);
        return;
      }
      for (const one of batch) fail(one, failure);
      return;
    }
    const elements = batchElements(answer.text);
    if (elements?.length !== batch.length) {
      const error = new UnavailableError('answer', 'the answer is not a list as long as the batch: is the url that of a Tidegate?');
      for (const one of batch) fail(one, error);
      return;
    }
    for (const [index, one] of batch.entries()) succeed(one, elements[index] as Answer);
  }
}

function end(one: Waiting): void {
  one.ended = true;
  clearTimeout(one.timer);
}

function succeed(one: Waiting, answer: Answer): void {
  if (one.ended) return;
  end(one);
  one.resolve(answer);
}

function fail(one: Waiting, error: Error): void {
  if (one.ended) return;
  end(one);
  one.reject(error);
}
