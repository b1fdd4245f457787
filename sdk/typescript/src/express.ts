/**
 * Rate limits for Express 4 and 5, with the option names of express-rate-limit.
 *
 * @module
 */
import type { NextFunction, Request, RequestHandler, Response } from 'express';

import { ipKey } from './client-ip.js';
import type { Decision } from './decision.js';
import type { Descriptor } from './descriptor.js';
import { TidegateError, UnavailableError } from './errors.js';
import { send, setHeaders } from './express-response.js';
import { limiterOptionsOf } from './express-options.js';
import type { Fallback } from './fallback.js';
import { decidingNumbers, rawPairs, type StandardHeaders } from './headers.js';
import { Limiter } from './limiter.js';
import type { PlainRequest } from './limiter-options.js';
import type { Limit } from './limits.js';
import type { Outcome, Reply } from './outcome.js';
import type { Reservation } from './reservation.js';
import type { Tidegate } from './client.js';
import { readsSpoofableHeader, type Logger } from './warnings.js';

/** A value, or a function of request and response that returns it; the function may be async. */
export type ValueOrFunction<T> = T | ((req: Request, res: Response) => T | Promise<T>);

/** What a `handler` of denials gets in addition to request and response: the options, with defaults filled in. */
export interface HandlerOptions extends RateLimitOptions {
  /** The status of the denial: the option, or 429. */
  readonly statusCode: number;
  /** The body of the denial: the option, or the problem that the service sent. */
  readonly message: unknown;
}

/** Options of {@link rateLimit}. Those up to `validate` are those of express-rate-limit. */
export interface RateLimitOptions {
  /** The window in milliseconds. Default: 60,000. */
  readonly windowMs?: number;
  /** Requests per window and client; 0 denies every request. Default: 5. */
  readonly limit?: ValueOrFunction<number>;
  /** The old name of `limit`. */
  readonly max?: ValueOrFunction<number>;
  /** The body of a denial: anything that `res.send` takes, or a function. Default: the problem that the service sent. */
  readonly message?: unknown;
  /** The status of a denial. Default: 429. */
  readonly statusCode?: number;
  /** Responds to denials, in place of `message` and `statusCode`. */
  readonly handler?: (req: Request, res: Response, next: NextFunction, options: HandlerOptions) => unknown;
  /** Whether `X-RateLimit-*` headers are sent. Default: true. */
  readonly legacyHeaders?: boolean;
  /** The old name of `legacyHeaders`. */
  readonly headers?: boolean;
  /** Which `RateLimit` headers are sent. Default: `'draft-11'`. */
  readonly standardHeaders?: StandardHeaders;
  /** Label of the policy in headers; it does not change which counter is used. Default: the window. */
  readonly identifier?: ValueOrFunction<string>;
  /** The property of the request that holds the {@link RateLimitInfo}. Default: `'rateLimit'`. */
  readonly requestPropertyName?: string;
  /** Returns true for requests that are not limited. */
  readonly skip?: (req: Request, res: Response) => boolean | Promise<boolean>;
  /** Gives back what a request was charged if it failed. Default: false. */
  readonly skipFailedRequests?: boolean;
  /** Gives back what a request was charged if it succeeded. Default: false. */
  readonly skipSuccessfulRequests?: boolean;
  /** Returns whether a request succeeded. Default: its status is below 400. */
  readonly requestWasSuccessful?: (req: Request, res: Response) => boolean | Promise<boolean>;
  /** Returns the key that tells clients apart; undefined or `''` stands for the address. Default: the address. */
  readonly keyGenerator?: (req: Request, res: Response) => string | undefined | Promise<string | undefined>;
  /** Bits of the networks that IPv6 addresses are grouped by; false counts each address. Default: 56. */
  readonly ipv6Subnet?: ValueOrFunction<number | false>;
  /** True stands for `fallback: 'allow'`, false for `fallback: 'deny'`. */
  readonly passOnStoreError?: boolean;
  /** Whether to warn about likely mistakes: all of them, or by code. Default: true. */
  readonly validate?: boolean | Readonly<Record<string, boolean>>;

  /** The client of the service. Default: limiters with the same `url` share one. */
  readonly client?: Tidegate;
  /** False lets every request pass without asking the service. Default: true. */
  readonly enabled?: boolean;
  /** URL of the service's HTTP API. Default: the environment variable `TIDEGATE_URL`, else `http://localhost:8080`. */
  readonly url?: string;
  /** Bearer token, if the service requires one. Default: the environment variable `TIDEGATE_TOKEN`. */
  readonly token?: string;
  /** Milliseconds until a decision has to be made; then the fallback decides. Default: 250. */
  readonly deadlineMs?: number;
  /** Limits such as `"10/minute;200/hour"`, in place of `windowMs` and `limit`. */
  readonly limits?: ValueOrFunction<string | readonly Limit[]>;
  /**
   * Name of the counters. Limiters with the same name share the counters of equal limits. Default: each limiter has
   * counters of its own. The path is never part of a counter.
   */
  readonly name?: string;
  /** Units that a request costs. Default: 1. */
  readonly cost?: ValueOrFunction<number>;
  /** The domain of the rules. Default: `'apps'`, which accepts limits in code. */
  readonly domain?: string;
  /** Descriptors that the rules of the service match, in place of limits in code. */
  readonly descriptors?: ValueOrFunction<readonly Descriptor[]>;
  /** What decides if the service cannot be reached or is too slow. Default: that of the client, `'local'`. */
  readonly fallback?: Fallback;
  /** Networks of your own proxies, such as `10.0.0.0/8`, or the number of proxies. Default: none is trusted. */
  readonly trustedProxies?: readonly string[] | number;
  /** The header in which your proxies write the address of the client. Default: `'x-forwarded-for'`. */
  readonly header?: 'x-forwarded-for' | 'forwarded';
  /** Charges `cost` as an estimate; the handler calls `req.rateLimit.settle` with the real cost. Default: false. */
  readonly reserve?: boolean;
  /** Milliseconds until an estimate can no longer be settled. Default: 600,000. */
  readonly reserveTtlMs?: number;
  /** Returns another response to a denial; undefined keeps that of the service. */
  readonly onReject?: (decision: Decision, req: Request, res: Response) => Reply | undefined | Promise<Reply | undefined>;
  /** Receives warnings and errors. Default: `console`. */
  readonly logger?: Logger;
}

/**
 * The state of the limit that denied a request or has the least left, in `req.rateLimit`.
 *
 * ```ts
 * app.get('/', (req, res) => res.send(`${req.rateLimit?.remaining} left`));
 * ```
 */
export interface RateLimitInfo {
  /** Units per window; `Infinity` if no limit applies. */
  readonly limit: number;
  /** Units that are used. */
  readonly used: number;
  /** Units that are left. */
  readonly remaining: number;
  /** When more units are available; undefined if no limit applies. */
  readonly resetTime: Date | undefined;
  /** The key that was charged; empty with `descriptors`. */
  readonly key: string;
  /** The decision, with the state of every limit. */
  readonly decision: Decision;
  /** With `reserve`: charges the real cost of the request. If that fails, it is logged, not thrown. */
  settle(cost: number): Promise<void>;
}

declare global {
  namespace Express {
    interface Request {
      rateLimit?: RateLimitInfo;
    }
  }
}

/** The state of a client, in the form of express-rate-limit. */
export interface ClientRateLimitInfo {
  /** Units that are used of the limit with the least left. */
  readonly totalHits: number;
  /** When more units are available. */
  readonly resetTime: Date | undefined;
}

/** The middleware that {@link rateLimit} returns; clients can be looked up and reset by key. */
export interface RateLimitRequestHandler extends RequestHandler {
  /**
   * Returns the state of a client, without charging it; undefined if it has used nothing.
   *
   * ```ts
   * const info = await limiter.getKey('192.0.2.7'); // { totalHits: 3, resetTime: … }
   * ```
   *
   * @param key What `keyGenerator` returns for the client, or its address.
   * @throws {UnavailableError} if the service cannot be reached and the fallback does not count.
   * @throws {RefusedError} if the service rejects the request as invalid.
   */
  getKey(key: string): Promise<ClientRateLimitInfo | undefined>;
  /**
   * Gives a client all of its limits back, in the service and in this process.
   *
   * ```ts
   * await limiter.resetKey('192.0.2.7');
   * ```
   *
   * The error of a call that is not awaited is logged as a warning of the client, and does not end the process.
   *
   * @param key What `keyGenerator` returns for the client, or its address.
   * @throws {UnavailableError} if the service cannot be reached; the counters of this process are reset then.
   * @throws {RefusedError} if the service rejects the request; the counters of this process are reset then.
   */
  resetKey(key: string): Promise<void>;
}

/** @internal What the functions among the options of the {@link Limiter} are called with. */
export interface Context {
  readonly req: Request;
  readonly res: Response;
}

/**
 * Returns a middleware that limits the requests that reach it.
 *
 * ```ts
 * import { rateLimit } from 'tidegate/express';
 * app.use(rateLimit({ name: 'site', windowMs: 60_000, limit: 100 }));
 * ```
 *
 * @throws {TidegateError} if an option is unknown or invalid; the message says what to write instead.
 */
export function rateLimit(options: RateLimitOptions = {}): RateLimitRequestHandler {
  const limiter = new Limiter<Context>(limiterOptionsOf(options));
  // The limiter gets a wrapper of the key function, whose text it cannot look at.
  if (options.keyGenerator && readsSpoofableHeader(options.keyGenerator)) limiter.warn('TIDEGATE_SPOOFABLE_KEY');
  limiter.warnOfTwin();
  const { trustedProxies = [] } = options;
  const trustsNobody = typeof trustedProxies !== 'number' && trustedProxies.length === 0;
  const warnOfTrustProxy = trustsNobody && !options.keyGenerator && !options.descriptors;
  const handler: RequestHandler = (req, res, next) => {
    if (warnOfTrustProxy && req.app?.get('trust proxy')) limiter.warn('TIDEGATE_TRUST_PROXY_IGNORED');
    limiter
      .decide(plainRequest(req), { req, res })
      .then((outcome) => apply(outcome, { req, res }, next, options, limiter))
      .catch(next);
  };
  return Object.assign(handler, {
    getKey: async (key: string) => clientInfoOf(await limiter.getKey(key)),
    resetKey: (key: string) => limiter.resetKey(key),
  });
}

export { addHeaders, sendDenial } from './express-response.js';
export { rateLimit as default };

/**
 * Returns the key of an address, for a `keyGenerator` of your own: the address of IPv4, or the network of IPv6.
 *
 * ```ts
 * rateLimit({ keyGenerator: (req) => req.get('x-api-key') ?? ipKeyGenerator(req.ip) });
 * ```
 */
export function ipKeyGenerator(ip: string, ipv6Subnet: number | false = 56): string {
  return ipKey(ip, ipv6Subnet === false ? 128 : ipv6Subnet);
}

function plainRequest(req: Request): PlainRequest {
  return { method: req.method, path: req.path, peer: req.socket.remoteAddress, headers: rawPairs(req.rawHeaders), identity: req };
}

async function apply(
  outcome: Outcome,
  { req, res }: Context,
  next: NextFunction,
  options: RateLimitOptions,
  limiter: Limiter<Context>,
): Promise<void> {
  if (outcome.kind === 'skip') {
    next();
    return;
  }
  const reservation = outcome.kind === 'pass' ? outcome.reservation : undefined;
  const settle = settleFunction(reservation, limiter);
  const property = options.requestPropertyName ?? 'rateLimit';
  (req as unknown as Record<string, unknown>)[property] = infoOf(outcome, settle);
  if (outcome.kind === 'deny') {
    await deny(outcome, { req, res }, next, options);
    return;
  }
  setHeaders(res, outcome.headers, false);
  if (reservation && (options.skipFailedRequests || options.skipSuccessfulRequests)) {
    res.once('close', () => void settleByResult({ req, res }, options, reservation, settle));
  }
  next();
}

function infoOf(outcome: Exclude<Outcome, { kind: 'skip' }>, settle: (cost: number) => Promise<void>): RateLimitInfo {
  const numbers = decidingNumbers(outcome.decision);
  return {
    limit: numbers?.limit ?? Infinity,
    used: numbers ? Math.max(0, numbers.limit - numbers.remaining) : 0,
    remaining: numbers?.remaining ?? Infinity,
    resetTime: numbers && new Date(Date.now() + numbers.resetS * 1_000),
    key: outcome.key ?? '',
    decision: outcome.decision,
    settle,
  };
}

function clientInfoOf(decision: Decision): ClientRateLimitInfo | undefined {
  if (decision.source === 'allow' || decision.source === 'deny') {
    throw new UnavailableError('connection', `the service cannot be reached, and the fallback (${decision.source}) counts nothing`);
  }
  const numbers = decidingNumbers(decision);
  // As in express-rate-limit, there is no state of a client that has used nothing.
  if (!numbers || decision.limits.every(({ reset_after_ms: resetMs }) => resetMs === 0)) return undefined;
  return {
    totalHits: Math.max(0, numbers.limit - numbers.remaining),
    resetTime: new Date(Date.now() + numbers.resetS * 1_000),
  };
}

function settleFunction(reservation: Reservation | undefined, limiter: Limiter<Context>): (cost: number) => Promise<void> {
  return async (cost) => {
    if (!reservation) throw new TidegateError('there is no reservation to settle: set the option reserve');
    if (reservation.settled) return;
    try {
      await reservation.settle(cost);
    } catch (error) {
      const result = error instanceof UnavailableError ? 'is not settled yet and will be retried' : 'stays charged as estimated';
      limiter.client.logger.warn(`tidegate: a reservation ${result}: ${(error as Error).message}`);
    }
  };
}

/** Settles a request when its response is complete: 0 if it is to be skipped, else the estimate. */
async function settleByResult(
  { req, res }: Context,
  options: RateLimitOptions,
  reservation: Reservation,
  settle: (cost: number) => Promise<void>,
): Promise<void> {
  let successful = false;
  try {
    // A client that left before the response was complete did not get it.
    successful = res.writableFinished && (await (options.requestWasSuccessful?.(req, res) ?? res.statusCode < 400));
  } catch (error) {
    options.logger?.error(`tidegate: requestWasSuccessful failed: ${String(error)}`);
  }
  const skipped = successful ? options.skipSuccessfulRequests : options.skipFailedRequests;
  await settle(skipped ? 0 : reservation.estimate);
}

type Denied = Extract<Outcome, { kind: 'deny' }>;

async function deny(outcome: Denied, { req, res }: Context, next: NextFunction, options: RateLimitOptions): Promise<void> {
  const { handler, message } = options;
  const statusCode = options.statusCode ?? outcome.status;
  if (handler) {
    setHeaders(res, outcome.headers.filter(([name]) => name !== 'content-type'), true);
    await handler(req, res, next, { ...options, statusCode, message: message ?? outcome.decision.body.json });
    return;
  }
  if (message !== undefined) {
    setHeaders(res, outcome.headers.filter(([name]) => name !== 'content-type'), true);
    const body: unknown = typeof message === 'function' ? await (message as (...args: unknown[]) => unknown)(req, res) : message;
    if (!res.writableEnded) res.status(statusCode).send(body);
    return;
  }
  const asRendered = options.onReject !== undefined || statusCode === outcome.status;
  // A problem repeats its status in the body.
  const body = asRendered ? outcome.body : JSON.stringify({ ...(JSON.parse(outcome.body) as object), status: statusCode });
  send(res, { status: statusCode, headers: outcome.headers, body });
}
