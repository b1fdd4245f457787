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
import { send, setHeaders } from './express-answer.js';
import { optionsOf } from './express-options.js';
import type { Fallback } from './fallback.js';
import { decidingNumbers, rawPairs, type StandardHeaders } from './headers.js';
import { Limiter } from './limiter.js';
import type { PlainRequest } from './limiter-options.js';
import type { Limit } from './limits.js';
import type { Outcome, Reply } from './outcome.js';
import type { Reservation } from './reservation.js';
import type { Tidegate } from './client.js';
import { readsSpoofableHeader, type Logger } from './warnings.js';

/** A value, or a function of request and response that returns it now or later. */
export type ValueOrFunction<T> = T | ((req: Request, res: Response) => T | Promise<T>);

/** What a handler of denials is given beside request and response. */
export interface HandlerOptions extends RateLimitOptions {
  /** As it was set, or else 429. */
  readonly statusCode: number;
  /** As it was set, or else the problem that the service answered. */
  readonly message: unknown;
}

/** Options of {@link rateLimit}. Those of the first part are as in express-rate-limit. */
export interface RateLimitOptions {
  /** How long the window is; a minute unless told. */
  readonly windowMs?: number;
  /** Requests per window and client; 5 unless told. 0 lets nothing pass. */
  readonly limit?: ValueOrFunction<number>;
  /** The old name of `limit`. */
  readonly max?: ValueOrFunction<number>;
  /** The body of a denial; the service's problem unless told. */
  readonly message?: unknown;
  /** The status of a denial; 429 unless told. */
  readonly statusCode?: number;
  /** Answers denials in place of all that. */
  readonly handler?: (req: Request, res: Response, next: NextFunction, options: HandlerOptions) => unknown;
  /** Whether `X-RateLimit-*` are sent; true unless told. */
  readonly legacyHeaders?: boolean;
  /** The old name of `legacyHeaders`. */
  readonly headers?: boolean;
  /** Which `RateLimit` headers are sent; `draft-11` unless told. */
  readonly standardHeaders?: StandardHeaders;
  /** What the policy is called in headers; by default as the window. A label: it changes no counter. */
  readonly identifier?: ValueOrFunction<string>;
  /** Where the state of the limit is on the request; `rateLimit` unless told. */
  readonly requestPropertyName?: string;
  /** Requests that are not limited at all. */
  readonly skip?: (req: Request, res: Response) => boolean | Promise<boolean>;
  /** Gives back what a request took if its answer is a failure. */
  readonly skipFailedRequests?: boolean;
  /** Gives back what a request took if its answer is none. */
  readonly skipSuccessfulRequests?: boolean;
  /** What is no failure; statuses below 400 unless told. */
  readonly requestWasSuccessful?: (req: Request, res: Response) => boolean | Promise<boolean>;
  /** Who is limited; the client's address unless told, and where this returns undefined or nothing (`''`). */
  readonly keyGenerator?: (req: Request, res: Response) => string | undefined | Promise<string | undefined>;
  /** Addresses of version 6 are counted by networks of so many bits, 56 unless told; false counts each. */
  readonly ipv6Subnet?: ValueOrFunction<number | false>;
  /** True is `fallback: 'allow'`, false is `fallback: 'deny'`. */
  readonly passOnStoreError?: boolean;
  /** Whether to warn of mistakes: of all, or by code. */
  readonly validate?: boolean | Readonly<Record<string, boolean>>;

  /** Whom to ask; else there is one client for each `url`. */
  readonly client?: Tidegate;
  /** False lets everything pass, and asks nobody; true unless told. */
  readonly enabled?: boolean;
  /** Of the service's HTTP API; the variable `TIDEGATE_URL` unless told, else `http://localhost:8080`. */
  readonly url?: string;
  /** A bearer token, if the service wants one; the variable `TIDEGATE_TOKEN` unless told. */
  readonly token?: string;
  /** How long a decision may take; 250 ms unless told. */
  readonly deadlineMs?: number;
  /** In place of `windowMs` and `limit`: `"10/minute;200/hour"`. */
  readonly limits?: ValueOrFunction<string | readonly Limit[]>;
  /**
   * What is limited. Limiters that share a name share the counters of equal limits. Without one a limiter
   * counts by itself, whatever the path.
   */
  readonly name?: string;
  /** Units a request takes; 1 unless told. */
  readonly cost?: ValueOrFunction<number>;
  /** Of the rules; `apps` unless told. */
  readonly domain?: string;
  /** For rules of the service, in place of limits in code. */
  readonly descriptors?: ValueOrFunction<readonly Descriptor[]>;
  /** Who decides if the service does not; as the client has it unless told, which is `local`. */
  readonly fallback?: Fallback;
  /** Networks of your own proxies, `10.0.0.0/8`, or how many a request goes through; nobody is trusted unless told. */
  readonly trustedProxies?: readonly string[] | number;
  /** The one header that your proxies write; `x-forwarded-for` unless told. */
  readonly header?: 'x-forwarded-for' | 'forwarded';
  /** Takes `cost` as an estimate; the handler calls `req.rateLimit.settle` with what it did cost. */
  readonly reserve?: boolean;
  /** How long it can be settled; 10 minutes unless told. */
  readonly reserveTtlMs?: number;
  /** Makes the answer to a denial; undefined leaves it as it is. */
  readonly onReject?: (decision: Decision, req: Request, res: Response) => Reply | undefined | Promise<Reply | undefined>;
  /** Where warnings go; `console` unless told. */
  readonly logger?: Logger;
}

/** The state of the limit, on the request. */
export interface RateLimitInfo {
  /** Units per window; infinite if no limit applies. */
  readonly limit: number;
  /** Units of it that are taken. */
  readonly used: number;
  /** Units that are left. */
  readonly remaining: number;
  /** When there is more. */
  readonly resetTime: Date | undefined;
  /** Who was charged; empty if the app gave its own descriptors. */
  readonly key: string;
  /** All that is known. */
  readonly decision: Decision;
  /** With `reserve`: charges what the request did cost. If the service cannot do so, that is logged and not thrown. */
  settle(cost: number): Promise<void>;
}

declare global {
  namespace Express {
    interface Request {
      rateLimit?: RateLimitInfo;
    }
  }
}

/** What is known of a client, as express-rate-limit has it. */
export interface ClientRateLimitInfo {
  /** Units that are taken of the limit with least left. */
  readonly totalHits: number;
  /** When there is more. */
  readonly resetTime: Date | undefined;
}

/** The middleware, with what can be done to a client by its key. */
export interface RateLimitRequestHandler extends RequestHandler {
  /**
   * How a client stands, by what `keyGenerator` returns for it, or its address; undefined if nothing is taken.
   *
   * @throws {UnavailableError} if the service cannot be reached, and nobody counts meanwhile.
   * @throws {RefusedError} if the service refuses it.
   */
  getKey(key: string): Promise<ClientRateLimitInfo | undefined>;
  /**
   * Gives a client all of its limits back. What this process counts is reset whatever the service says.
   *
   * Await it. The error of a call that nobody awaits is only logged, as a warning of the client's.
   *
   * @throws {UnavailableError} if the service does not answer: then only what this process counts is reset.
   * @throws {RefusedError} if the service refuses it; the same holds.
   */
  resetKey(key: string): Promise<void>;
}

/** Request and response: what the functions of the core are called with. */
export interface Context {
  readonly req: Request;
  readonly res: Response;
}

/**
 * Limits what comes after it.
 *
 * ```ts
 * import { rateLimit } from 'tidegate/express';
 * app.use(rateLimit({ windowMs: 60_000, limit: 100 }));
 * ```
 */
export function rateLimit(options: RateLimitOptions = {}): RateLimitRequestHandler {
  const limiter = new Limiter<Context>(optionsOf(options));
  // The core sees only what wraps it.
  if (options.keyGenerator && readsSpoofableHeader(options.keyGenerator)) limiter.warn('TIDEGATE_SPOOFABLE_KEY');
  limiter.warnOfTwin();
  const { trustedProxies = [] } = options;
  const trustsNobody = typeof trustedProxies !== 'number' && trustedProxies.length === 0;
  const warnOfTrustProxy = trustsNobody && !options.keyGenerator && !options.descriptors;
  const handler: RequestHandler = (req, res, next) => {
    if (warnOfTrustProxy && req.app?.get('trust proxy')) limiter.warn('TIDEGATE_TRUST_PROXY_IGNORED');
    limiter
      .decide(plainRequest(req), { req, res })
      .then((outcome) => act(outcome, { req, res }, next, options, limiter))
      .catch(next);
  };
  return Object.assign(handler, {
    getKey: async (key: string) => clientInfoOf(await limiter.getKey(key)),
    resetKey: (key: string) => limiter.resetKey(key),
  });
}

export { addHeaders, sendDenial } from './express-answer.js';
export { rateLimit as default };

/** The key of an address, for a `keyGenerator` of your own. */
export function ipKeyGenerator(ip: string, ipv6Subnet: number | false = 56): string {
  return ipKey(ip, ipv6Subnet === false ? 128 : ipv6Subnet);
}

function plainRequest(req: Request): PlainRequest {
  return { method: req.method, path: req.path, peer: req.socket.remoteAddress, headers: rawPairs(req.rawHeaders), identity: req };
}

async function act(
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
  const settle = settler(reservation, limiter);
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
  // As with express-rate-limit, nothing is known of who has not asked.
  if (!numbers || decision.limits.every(({ reset_after_ms: resetMs }) => resetMs === 0)) return undefined;
  return {
    totalHits: Math.max(0, numbers.limit - numbers.remaining),
    resetTime: new Date(Date.now() + numbers.resetS * 1_000),
  };
}

function settler(reservation: Reservation | undefined, limiter: Limiter<Context>): (cost: number) => Promise<void> {
  return async (cost) => {
    if (!reservation) throw new TidegateError('there is nothing to settle: set the option reserve');
    if (reservation.settled) return;
    try {
      await reservation.settle(cost);
    } catch (error) {
      const then = error instanceof UnavailableError ? 'is not settled yet, and tried again' : 'stays charged as estimated';
      limiter.client.logger.warn(`tidegate: a reservation ${then}: ${(error as Error).message}`);
    }
  };
}

/** A request that is to be skipped costs nothing in the end. */
async function settleByResult(
  { req, res }: Context,
  options: RateLimitOptions,
  reservation: Reservation,
  settle: (cost: number) => Promise<void>,
): Promise<void> {
  let successful = false;
  try {
    // A client that went away before the answer was whole did not get it.
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
