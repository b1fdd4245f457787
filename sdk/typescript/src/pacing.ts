/**
 * A `fetch` that keeps to the rate limits of the servers it calls.
 *
 * @module
 */
import { HostQueue, MAX_TIMER_MS } from './host-queue.js';
import type { Start } from './host-state.js';
import { isDenial, learn, requestedWaitS, type Learned } from './learn.js';

export { PacingDeadlineError } from './host-queue.js';
export { delayMs, isDenial, learn, type Learned, type LearnedPolicy } from './learn.js';

/** A function with the signature of the global `fetch`. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** Options of {@link pacedFetch}. */
export interface PacingOptions {
  /** Sends the requests. Default: the global `fetch`. */
  readonly fetch?: Fetch;
  /** Returns a key; requests with the same key share a queue and what is known about the limits. Default: the host and port. */
  readonly key?: (url: URL) => string;
  /** Retries of a request at most. Default: 3. */
  readonly maxRetries?: number;
  /** Milliseconds after the call by which every wait ends. Default: 30,000. */
  readonly deadlineMs?: number;
  /** Called before the wait for a retry. */
  readonly onRetry?: (retry: Retry) => void;
  /** Returns milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
  /** Returns a random number from 0 to below 1. Default: `Math.random`. */
  readonly random?: () => number;
}

/** A retry, as `onRetry` gets it. */
export interface Retry {
  readonly url: URL;
  /** 1 for the first retry. */
  readonly attempt: number;
  /** Milliseconds until the retry. */
  readonly waitMs: number;
  /** The status of the response that is not returned; undefined if there was no response. */
  readonly status: number | undefined;
}

/** The `fetch` that {@link pacedFetch} returns. */
export interface PacedFetch extends Fetch {
  /**
   * Returns what the last response of a host said about its limits, and the milliseconds that a request would wait now;
   * undefined if the host is not known. `key` is the host and port, unless the option `key` names it otherwise.
   */
  state(key: string): { readonly learned: Learned; readonly delayMs: number } | undefined;
}

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE']);
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 10_000;
const MIN_JITTER_MS = 100;
const MAX_JITTER_MS = 5_000;
/** Hosts that are remembered at most; the least recently called is forgotten first. */
const MAX_HOSTS = 1_000;

/**
 * Returns a `fetch` that waits before a request would be denied, and retries denied requests when the server allows it.
 *
 * ```ts
 * const fetch = pacedFetch();
 * const response = await fetch('https://api.example/items');
 * fetch.state('api.example')?.learned.remaining
 * ```
 *
 * It throws {@link PacingDeadlineError} if a request could not be sent before the deadline.
 */
export function pacedFetch(options: PacingOptions = {}): PacedFetch {
  const pacer = new Pacer(options);
  return Object.assign((input: string | URL | Request, init?: RequestInit) => pacer.fetch(input, init), {
    state: (key: string) => pacer.state(key),
  });
}

class Pacer {
  readonly #gates = new Map<string, HostQueue>();
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
        // An earlier response is better than an error.
        if (last && !call.signal?.aborted) return resultOf(last);
        throw error;
      }
      // This request has its turn now: awaiting or throwing before `#send` would block the queue.
      void discard(last?.response);
      const outcome = await this.#send(call, gate, start);
      const waitMs = attempt < this.#maxRetries ? this.#retryWait(call, outcome, attempt) : undefined;
      if (waitMs === undefined || this.#now() + waitMs > deadlineAt) return resultOf(outcome);
      this.#onRetry({ url: call.url, attempt: attempt + 1, waitMs, status: outcome.response?.status });
      await sleep(waitMs, call.signal);
      last = outcome;
    }
  }

  async #send(call: Call, gate: HostQueue, start: Start): Promise<Outcome> {
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

  /** Returns the milliseconds to wait before a retry; undefined if the result is final. */
  #retryWait(call: Call, { response, learned }: Outcome, attempt: number): number | undefined {
    if (!call.repeatable || call.signal?.aborted) return undefined;
    const status = response?.status;
    const denied = status !== undefined && learned !== undefined && isDenial(status, learned);
    const failed = status === undefined || status === 502 || status === 503 || status === 504;
    if (!denied && !(failed && call.idempotent)) return undefined;
    const requestedS = learned ? requestedWaitS(learned) : null;
    if (requestedS === null) return this.#random() * Math.min(MIN_BACKOFF_MS * 2 ** attempt, MAX_BACKOFF_MS);
    const waitMs = requestedS * 1_000;
    return waitMs + this.#random() * Math.max(MIN_JITTER_MS, Math.min(waitMs / 10, MAX_JITTER_MS));
  }

  #gate(key: string): HostQueue {
    const gate = this.#gates.get(key) ?? new HostQueue(this.#now);
    this.#gates.delete(key);
    this.#gates.set(key, gate);
    if (this.#gates.size > MAX_HOSTS) this.#gates.delete(this.#gates.keys().next().value as string);
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

/** Frees the connection of a response whose body is not read. */
async function discard(response: Response | undefined): Promise<void> {
  try {
    await response?.body?.cancel();
  } catch {
    // The connection is closed already.
  }
}

/** A request that may be sent several times. */
class Call {
  readonly url: URL;
  readonly signal: AbortSignal | undefined;
  /** Whether sending it twice has the effect of sending it once. */
  readonly idempotent: boolean;
  /** Whether its body can be sent more than once. */
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
    // A Request can be sent only once, so a copy is sent.
    return fetch(this.#input instanceof Request ? this.#input.clone() : this.#input, this.init);
  }
}

/** Waits; rejects with the reason of the signal as soon as it is aborted. */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, Math.min(ms, MAX_TIMER_MS));
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}
