/**
 * A `fetch` that keeps to the limits of the servers it calls.
 *
 * @module
 */
import { Gate, LONGEST_MS } from './gate.js';
import type { Start } from './lane.js';
import { isDenial, learn, toldWaitS, type Learned } from './learn.js';

export { PacingDeadlineError } from './gate.js';
export { delayMs, isDenial, learn, type Learned, type LearnedPolicy } from './learn.js';

/** Anything called like the global `fetch`. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** How a {@link PacedFetch} behaves. */
export interface PacingOptions {
  /** What sends; the global `fetch` unless told. */
  readonly fetch?: Fetch;
  /** Requests with the same key share what was learnt; the host and port unless told. */
  readonly key?: (url: URL) => string;
  /** How often a request is sent again at most; 3 unless told. */
  readonly maxRetries?: number;
  /** No wait ends later than so long after the call; 30 s unless told. */
  readonly deadlineMs?: number;
  /** Told of every retry before its wait. */
  readonly onRetry?: (retry: Retry) => void;
  /** Milliseconds since the epoch; `Date.now` unless told. */
  readonly now?: () => number;
  /** From 0 to below 1; `Math.random` unless told. */
  readonly random?: () => number;
}

/** A request that will be sent again. */
export interface Retry {
  readonly url: URL;
  /** 1 for the first. */
  readonly attempt: number;
  readonly waitMs: number;
  /** Of the answer that was not good enough; undefined if there was none. */
  readonly status: number | undefined;
}

/** `fetch`, and what it learnt. */
export interface PacedFetch extends Fetch {
  /** What the last answer of a host told about its limits, and how long a request would wait now. */
  state(key: string): { readonly learned: Learned; readonly delayMs: number } | undefined;
}

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE']);
const FIRST_BACKOFF_MS = 100;
const MOST_BACKOFF_MS = 10_000;
const LEAST_JITTER_MS = 100;
const MOST_JITTER_MS = 5_000;
/** Of more hosts the one that was not called for longest is forgotten. */
const MOST_HOSTS = 1_000;

/**
 * Makes a `fetch` that waits before it would be denied, retries what is safe to send again, and gives
 * up by count or deadline.
 *
 * ```ts
 * const fetch = pacedFetch();
 * const answer = await fetch('https://api.example/items');
 * fetch.state('api.example')?.learned.remaining
 * ```
 */
export function pacedFetch(options: PacingOptions = {}): PacedFetch {
  const pacer = new Pacer(options);
  return Object.assign((input: string | URL | Request, init?: RequestInit) => pacer.fetch(input, init), {
    state: (key: string) => pacer.state(key),
  });
}

class Pacer {
  readonly #gates = new Map<string, Gate>();
  readonly #fetch: Fetch;
  readonly #key: (url: URL) => string;
  readonly #maxRetries: number;
  readonly #deadlineMs: number;
  readonly #onRetry: (retry: Retry) => void;
  readonly #now: () => number;
  readonly #random: () => number;

  constructor(options: PacingOptions) {
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#key = options.key ?? ((url) => url.host);
    this.#maxRetries = options.maxRetries ?? 3;
    this.#deadlineMs = options.deadlineMs ?? 30_000;
    this.#onRetry = options.onRetry ?? (() => {});
    this.#now = options.now ?? Date.now;
    this.#random = options.random ?? Math.random;
  }

  state(key: string): { learned: Learned; delayMs: number } | undefined {
    const gate = this.#gates.get(key);
    return gate?.learned && { learned: gate.learned, delayMs: gate.delayMs };
  }

  async fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const call = new Call(input, init);
    const gate = this.#gate(this.#key(call.url));
    const deadlineAt = this.#now() + this.#deadlineMs;
    let last: Outcome | undefined;
    for (let attempt = 0; ; attempt += 1) {
      let start: Start;
      try {
        start = await gate.enter(deadlineAt, call.signal);
      } catch (error) {
        // The answer that there is, is better than none.
        if (last && !call.signal?.aborted) return resultOf(last);
        throw error;
      }
      // The turn is taken: whatever is awaited or throws between here and `#send` would keep it for ever.
      void discard(last?.response);
      const outcome = await this.#send(call, gate, start);
      const waitMs = attempt < this.#maxRetries ? this.#retryWait(call, outcome, attempt) : undefined;
      if (waitMs === undefined || this.#now() + waitMs > deadlineAt) return resultOf(outcome);
      this.#onRetry({ url: call.url, attempt: attempt + 1, waitMs, status: outcome.response?.status });
      await sleep(waitMs, call.signal);
      last = outcome;
    }
  }

  async #send(call: Call, gate: Gate, start: Start): Promise<Outcome> {
    try {
      const response = await call.send(this.#fetch);
      const learned = learn(response.status, response.headers, this.#now());
      gate.respond(start, response.status, learned);
      return { response, learned };
    } catch (error) {
      gate.fail(start);
      return { error };
    }
  }

  /** How long to wait before it is sent again; undefined if it is not. */
  #retryWait(call: Call, { response, learned }: Outcome, attempt: number): number | undefined {
    if (!call.repeatable || call.signal?.aborted) return undefined;
    const status = response?.status;
    const denied = status !== undefined && learned !== undefined && isDenial(status, learned);
    const failed = status === undefined || status === 502 || status === 503 || status === 504;
    if (!denied && !(failed && call.idempotent)) return undefined;
    const toldS = learned ? toldWaitS(learned) : null;
    if (toldS === null) return this.#random() * Math.min(FIRST_BACKOFF_MS * 2 ** attempt, MOST_BACKOFF_MS);
    const waitMs = toldS * 1_000;
    return waitMs + this.#random() * Math.max(LEAST_JITTER_MS, Math.min(waitMs / 10, MOST_JITTER_MS));
  }

  #gate(key: string): Gate {
    const gate = this.#gates.get(key) ?? new Gate(this.#now);
    this.#gates.delete(key);
    this.#gates.set(key, gate);
    if (this.#gates.size > MOST_HOSTS) this.#gates.delete(this.#gates.keys().next().value as string);
    return gate;
  }
}

interface Outcome {
  readonly response?: Response;
  readonly learned?: Learned;
  readonly error?: unknown;
}

function resultOf({ response, error }: Outcome): Response {
  if (response) return response;
  throw error;
}

/** Frees the connection of a response that nobody reads. A body that has failed already needs no more. */
async function discard(response: Response | undefined): Promise<void> {
  try {
    await response?.body?.cancel();
  } catch {
    // The connection is gone, which is what was wanted.
  }
}

/** What is sent, as often as it may be. */
class Call {
  readonly url: URL;
  readonly signal: AbortSignal | undefined;
  /** Whether sending it twice does what sending it once does. */
  readonly idempotent: boolean;
  /** Whether the body is still there after it was sent. */
  readonly repeatable: boolean;
  readonly #input: string | URL | Request;

  constructor(
    input: string | URL | Request,
    private readonly init: RequestInit,
  ) {
    this.#input = input;
    const request = input instanceof Request ? input : undefined;
    this.url = new URL(request ? request.url : (input as string | URL));
    this.signal = init.signal ?? request?.signal ?? undefined;
    const method = (init.method ?? request?.method ?? 'GET').toUpperCase();
    const headers = new Headers(init.headers ?? request?.headers);
    this.idempotent = IDEMPOTENT.has(method) || headers.has('idempotency-key');
    const body: unknown = init.body;
    this.repeatable =
      typeof body !== 'object' ||
      body === null ||
      !(body instanceof ReadableStream || (Symbol.asyncIterator in body && !(body instanceof Blob)));
  }

  send(fetch: Fetch): Promise<Response> {
    // A request can be sent once; its copy leaves it as it was.
    return fetch(this.#input instanceof Request ? this.#input.clone() : this.#input, this.init);
  }
}

/** Waits, or throws the reason as soon as the signal is aborted. */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, Math.min(ms, LONGEST_MS));
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}
