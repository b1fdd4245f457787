import { backoffMs } from './backoff.js';

/** Leave to send; to be told how it went. */
export interface Attempt {
  readonly generation: number;
}

/** What a {@link Breaker} may be given in place of the real ones. */
export interface BreakerOptions {
  /** Milliseconds that only go forward. */
  readonly now?: () => number;
  /** From 0 to below 1. */
  readonly random?: () => number;
  readonly onOpen?: () => void;
  readonly onClose?: () => void;
}

/**
 * Keeps a service that failed from being asked by everybody at once: after a failure nobody asks for a
 * while, then one request alone does. The wait doubles from 50 ms to 5 s, and is drawn evenly from
 * nothing to that, so that many processes do not return together.
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

  /** Whether nothing is known to be wrong. */
  get closed(): boolean {
    return this.#failures === 0;
  }

  /** Leave to send, or undefined if the fallback has to decide. */
  admit(): Attempt | undefined {
    if (this.#failures > 0) {
      if (this.#probing || this.#now() < this.#until) return undefined;
      this.#probing = true;
    }
    return { generation: this.#generation };
  }

  /** The service answered, whatever it said. */
  succeeded(_attempt: Attempt): void {
    if (this.closed) return;
    this.#failures = 0;
    this.#probing = false;
    this.#generation += 1;
    this.#onClose();
  }

  /** It could not be reached, or was too slow. */
  failed(attempt: Attempt): void {
    // Several were under way as it went down: that is one failure.
    if (attempt.generation !== this.#generation) return;
    const wasClosed = this.closed;
    this.#failures += 1;
    this.#generation += 1;
    this.#probing = false;
    this.#until = this.#now() + backoffMs(this.#failures, this.#random());
    if (wasClosed) this.#onOpen();
  }
}
