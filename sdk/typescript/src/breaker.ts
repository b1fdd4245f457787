import { backoffMs } from './backoff.js';

/** Permission to send a request; its result is reported with it. */
export interface Attempt {
  readonly generation: number;
}

/** Options of a {@link Breaker}. */
export interface BreakerOptions {
  /** Returns milliseconds that never go back. */
  readonly now?: () => number;
  /** Returns a random number from 0 to below 1. */
  readonly random?: () => number;
  /** Called when the service has failed. */
  readonly onOpen?: () => void;
  /** Called when the service responds again. */
  readonly onClose?: () => void;
}

/**
 * A circuit breaker. After a failure no request is sent for a while, then a single one probes the service. The wait
 * doubles from 50 ms to 5 s, with full jitter, so that many processes do not return together.
 */
export class Breaker {
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #onOpen: () => void;
  readonly #onClose: () => void;
  #failures = 0;
  #generation = 0;
  #until = 0;
  #probing = false;

  constructor(options: BreakerOptions = {}) {
    this.#now = options.now ?? (() => performance.now());
    this.#random = options.random ?? Math.random;
    this.#onOpen = options.onOpen ?? (() => {});
    this.#onClose = options.onClose ?? (() => {});
  }

  /** Whether the service did not fail last. */
  get closed(): boolean {
    return this.#failures === 0;
  }

  /** Returns the permission to send, or undefined if the fallback has to decide. */
  admit(): Attempt | undefined {
    if (this.#failures > 0) {
      if (this.#probing || this.#now() < this.#until) return undefined;
      this.#probing = true;
    }
    return { generation: this.#generation };
  }

  /** Records that the service responded, with any status. */
  succeeded(_attempt: Attempt): void {
    if (this.closed) return;
    this.#failures = 0;
    this.#probing = false;
    this.#generation += 1;
    this.#onClose();
  }

  /** Records that the service could not be reached, or was too slow. */
  failed(attempt: Attempt): void {
    // Several requests that were under way together count as one failure.
    if (attempt.generation !== this.#generation) return;
    const wasClosed = this.closed;
    this.#failures += 1;
    this.#generation += 1;
    this.#probing = false;
    this.#until = this.#now() + backoffMs(this.#failures, this.#random());
    if (wasClosed) this.#onOpen();
  }
}
