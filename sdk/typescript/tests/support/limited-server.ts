/** A server of the runs in `vectors/pacing.json`, whose README says how each kind decides and what it tells. */
export interface ServerCase {
  readonly kind: 'sliding_log' | 'fixed_window' | 'sliding_window' | 'token_bucket';
  readonly requests: number;
  readonly window_s: number;
  readonly phase_s: number;
  readonly headers: 'structured' | 'x-ratelimit' | 'retry-after';
}

interface Decided {
  readonly allowed: boolean;
  readonly left: number;
  /** Until there is more, or until it would pass. */
  readonly afterS: number;
}

export class LimitedServer {
  denials = 0;
  #stamps: number[] = [];
  /** Counts by number of the window. */
  #counts = new Map<number, number>();
  #tokens: { left: number; at: number };

  constructor(private readonly of: ServerCase) {
    this.#tokens = { left: of.requests, at: 0 };
  }

  /** Decides a request that arrives so many seconds after the client started. */
  answer(atS: number): Response {
    const decided = this.#decide(atS);
    if (!decided.allowed) this.denials += 1;
    return new Response(null, { status: decided.allowed ? 200 : 429, headers: this.#headers(decided) });
  }

  #decide(atS: number): Decided {
    if (this.of.kind === 'sliding_log') return this.#slidingLog(atS);
    if (this.of.kind === 'token_bucket') return this.#tokenBucket(atS);
    const now = atS + this.of.phase_s;
    return this.of.kind === 'fixed_window' ? this.#fixedWindow(now) : this.#slidingWindow(now);
  }

  #slidingLog(now: number): Decided {
    const { requests, window_s: window } = this.of;
    this.#stamps = this.#stamps.filter((stamp) => now - stamp < window);
    if (this.#stamps.length >= requests) return { allowed: false, left: 0, afterS: window - (now - (this.#stamps[0] ?? now)) };
    this.#stamps.push(now);
    return { allowed: true, left: requests - this.#stamps.length, afterS: window };
  }

  #fixedWindow(now: number): Decided {
    const { requests, window_s: window } = this.of;
    const index = Math.floor(now / window);
    const count = this.#counts.get(index) ?? 0;
    const afterS = (index + 1) * window - now;
    if (count >= requests) return { allowed: false, left: 0, afterS };
    this.#counts.set(index, count + 1);
    return { allowed: true, left: requests - count - 1, afterS };
  }

  #slidingWindow(now: number): Decided {
    const { requests, window_s: window } = this.of;
    const index = Math.floor(now / window);
    const [before, count] = [this.#counts.get(index - 1) ?? 0, this.#counts.get(index) ?? 0];
    const gone = now - index * window;
    const used = count + (before * (window - gone)) / window;
    if (used + 1 <= requests + 1e-9) {
      this.#counts.set(index, count + 1);
      return { allowed: true, left: Math.floor(requests - used - 1 + 1e-9), afterS: window };
    }
    // In this window as the one before fades, else in the next as this one does.
    const room = requests - 1;
    const afterS = count <= room ? window - gone - ((room - count) * window) / before : 2 * window - gone - (room * window) / count;
    return { allowed: false, left: 0, afterS: Math.max(afterS, 0) };
  }

  #tokenBucket(now: number): Decided {
    const { requests, window_s: window } = this.of;
    const perToken = window / requests;
    const left = Math.min(requests, this.#tokens.left + (now - this.#tokens.at) / perToken);
    if (left < 1 - 1e-9) {
      this.#tokens = { left, at: now };
      return { allowed: false, left: 0, afterS: (1 - left) * perToken };
    }
    this.#tokens = { left: left - 1, at: now };
    return { allowed: true, left: Math.floor(left - 1 + 1e-9), afterS: (requests - left + 1) * perToken };
  }

  #headers({ allowed, left, afterS }: Decided): Record<string, string> {
    const { requests, window_s: window, headers } = this.of;
    const t = Math.ceil(afterS - 1e-9);
    const retry: Record<string, string> = allowed ? {} : { 'retry-after': String(Math.max(1, t)) };
    if (headers === 'retry-after') return retry;
    if (headers === 'structured') return { 'ratelimit-policy': `"a";q=${requests};w=${window}`, ratelimit: `"a";r=${left};t=${t}`, ...retry };
    return { 'x-ratelimit-limit': String(requests), 'x-ratelimit-remaining': String(left), 'x-ratelimit-reset': String(t), ...retry };
  }
}
