import type { ServiceResponse } from './decision.js';
import { failureOf } from './decision.js';
import { RefusedError, UnavailableError } from './errors.js';
import { batchElements } from './raw-json.js';

/** Options of a {@link Batcher}. */
export interface BatcherOptions {
  /** Sends a body to `/v1/check`, and returns the response within a timeout. */
  readonly send: (body: string, timeoutMs: number) => Promise<ServiceResponse>;
  /** Batches under way at the same time. */
  readonly maxInFlight: number;
}

/** Checks in one batch: the service accepts no more. */
const MAX_CHECKS = 1_000;
/** UTF-16 units in one batch: a quarter of the bytes that the service accepts by default. */
const MAX_LENGTH = 256 * 1024;
/** Checks that wait to be sent at most; the fallback decides further ones at once. */
const MAX_WAITING = 10_000;

/** A check that waits for its response. */
interface PendingCheck {
  readonly body: string;
  /** Its deadline, by `performance.now()`. */
  readonly until: number;
  readonly resolve: (response: ServiceResponse) => void;
  readonly reject: (error: Error) => void;
  timer: NodeJS.Timeout | undefined;
  ended: boolean;
}

/**
 * Sends checks that are made at the same time as one request. A batch is sent as soon as the code that made the first
 * check yields. While `maxInFlight` batches are under way, further checks gather. No timer adds a wait.
 */
export class Batcher {
  readonly #send: BatcherOptions['send'];
  readonly #maxInFlight: number;
  #waiting: PendingCheck[] = [];
  #inFlight = 0;
  #scheduled = false;

  constructor({ send, maxInFlight }: BatcherOptions) {
    this.#send = send;
    this.#maxInFlight = maxInFlight;
  }

  /**
   * Returns the response to a check; `body` is the check as JSON.
   *
   * @throws {UnavailableError} after the deadline, whichever batch the check is in.
   */
  check(body: string, deadlineMs: number): Promise<ServiceResponse> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= MAX_WAITING) {
        reject(new UnavailableError('overload', `${MAX_WAITING} checks are waiting already`, { sent: false }));
        return;
      }
      const check: PendingCheck = { body, until: performance.now() + deadlineMs, resolve, reject, timer: undefined, ended: false };
      check.timer = setTimeout(() => {
        end(check);
        reject(new UnavailableError('timeout', `the service did not respond within ${deadlineMs} ms`));
      }, deadlineMs);
      this.#waiting.push(check);
      this.#schedule();
    });
  }

  /** Rejects all checks that were not sent yet. */
  rejectWaiting(error: Error): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const check of waiting) fail(check, error);
  }

  #schedule(): void {
    if (this.#scheduled || this.#inFlight >= this.#maxInFlight) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      while (this.#inFlight < this.#maxInFlight) {
        const batch = this.#nextBatch();
        if (batch.length === 0) return;
        void this.#run(batch);
      }
    });
  }

  /** Returns the next checks that still wait, as many as fit into a batch. */
  #nextBatch(): PendingCheck[] {
    const batch: PendingCheck[] = [];
    let length = 0;
    let taken = 0;
    for (const check of this.#waiting) {
      if (batch.length === MAX_CHECKS || (batch.length > 0 && length + check.body.length > MAX_LENGTH)) break;
      taken += 1;
      if (check.ended) continue;
      batch.push(check);
      length += check.body.length;
    }
    this.#waiting.splice(0, taken);
    return batch;
  }

  async #run(batch: PendingCheck[]): Promise<void> {
    this.#inFlight += 1;
    try {
      await this.#sendBatch(batch);
    } finally {
      this.#inFlight -= 1;
      if (this.#waiting.length > 0) this.#schedule();
    }
  }

  async #sendBatch(batch: PendingCheck[]): Promise<void> {
    const [first] = batch;
    const single = batch.length === 1 && first !== undefined;
    const body = single ? first.body : `[${batch.map((check) => check.body).join(',')}]`;
    // Each check has a deadline of its own; after the last of them no caller waits any more.
    const timeoutMs = Math.max(1, Math.max(...batch.map((check) => check.until)) - performance.now());
    let response: ServiceResponse;
    try {
      response = await this.#send(body, timeoutMs);
    } catch (error) {
      for (const check of batch) fail(check, error as Error);
      return;
    }
    if (single) succeed(first, response);
    else await this.#distribute(batch, response);
  }

  async #distribute(batch: PendingCheck[], response: ServiceResponse): Promise<void> {
    if (response.status !== 200) {
      const failure = failureOf(response);
      // Nothing of a batch that is refused as a whole was charged. It may be too long for this service, or one check
      // may be invalid: halving the batch finds it, so that the others are decided.
      if (failure instanceof RefusedError && (failure.status === 400 || failure.status === 413)) {
        const half = Math.ceil(batch.length / 2);
        await Promise.all([this.#sendBatch(batch.slice(0, half)), this.#sendBatch(batch.slice(half))]);
        return;
      }
      for (const check of batch) fail(check, failure);
      return;
    }
    const elements = batchElements(response.text);
    if (elements?.length !== batch.length) {
      const error = new UnavailableError('response', 'the response is not a list as long as the batch: is the url that of a Tidegate service?');
      for (const check of batch) fail(check, error);
      return;
    }
    for (const [index, check] of batch.entries()) succeed(check, elements[index] as ServiceResponse);
  }
}

function end(check: PendingCheck): void {
  check.ended = true;
  clearTimeout(check.timer);
}

function succeed(check: PendingCheck, response: ServiceResponse): void {
  if (check.ended) return;
  end(check);
  check.resolve(response);
}

function fail(check: PendingCheck, error: Error): void {
  if (check.ended) return;
  end(check);
  check.reject(error);
}
