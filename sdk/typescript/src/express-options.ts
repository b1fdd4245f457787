import { TidegateError } from './errors.js';
import type { Context, RateLimitOptions, ValueOrFunction } from './express.js';
import { STANDARD_HEADERS } from './headers.js';
import type { LimiterOptions } from './limiter-options.js';
import { perOf, type Limit } from './limits.js';

/** As in express-rate-limit. */
const DEFAULT_WINDOW_MS = 60_000;
const DEFAULT_LIMIT = 5;
/** Of a request that is counted by its result: as long as any should take. */
const RESULT_TTL_MS = 600_000;

const KNOWN: Readonly<Record<keyof RateLimitOptions, true>> = {
  windowMs: true, limit: true, max: true, message: true, statusCode: true, handler: true, legacyHeaders: true,
  standardHeaders: true, identifier: true, requestPropertyName: true, skip: true, skipFailedRequests: true,
  skipSuccessfulRequests: true, requestWasSuccessful: true, keyGenerator: true, ipv6Subnet: true,
  passOnStoreError: true, validate: true, client: true, url: true, token: true, deadlineMs: true, limits: true,
  name: true, cost: true, domain: true, descriptors: true, fallback: true, trustedProxies: true, header: true,
  reserve: true, reserveTtlMs: true, onReject: true, logger: true, enabled: true, headers: true,
};

/** What to write in place of options that other versions, or express-rate-limit, have. */
const INSTEAD: Readonly<Record<string, string>> = {
  store:
    'store is no option of tidegate: the service keeps the counters, for all processes. Leave it out, and set url to where ' +
    'the service is; for tests and apps of one process set client: Tidegate.local()',
  route: 'route is called name: limiters with the same name share their counters. Without one, a limiter counts by itself, whatever the path',
  onLimitReached: 'onLimitReached is gone: write a handler, which is called with every denial',
  draft_polli_ratelimit_headers: "draft_polli_ratelimit_headers is called standardHeaders: 'draft-6'",
  delayMs: 'delayMs is no option: requests are denied, not delayed. Leave it out',
  delayAfter: 'delayAfter is no option: requests are denied, not delayed. Leave it out',
  retryAfter:
    'retryAfter is no option, of express-rate-limit neither: leave it out, as Retry-After is sent with every denial. ' +
    'To have it in the body, write message: (req) => ({ error: "slow down", retryAfter: req.rateLimit.decision.retryAfter })',
};

/** Reads the options of the middleware into those of the core, and refuses what makes no sense. */
export function optionsOf(options: RateLimitOptions): LimiterOptions<Context> {
  refuseUnknown(options);
  refuseHeaders(options);
  const byResult = Boolean(options.skipFailedRequests || options.skipSuccessfulRequests);
  const { ipv6Subnet, keyGenerator, onReject, skip } = options;
  const fallback = fallbackOf(options);
  return {
    ...asGiven(options),
    ...whatIsLimited(options),
    reserve: byResult || options.reserve === true,
    reserveTtlMs: options.reserveTtlMs ?? RESULT_TTL_MS,
    ...(ipv6Subnet === undefined ? {} : { ipv6Prefix: prefixOf(ipv6Subnet) }),
    ...(fallback === undefined ? {} : { fallback }),
    ...(options.identifier === undefined ? {} : { identifier: ofContext(options.identifier) }),
    ...(options.headers === undefined ? {} : { legacyHeaders: options.headers }),
    ...(options.cost === undefined ? {} : { cost: ofContext(options.cost) }),
    ...(keyGenerator === undefined ? {} : { key: ({ req, res }) => keyGenerator(req, res) }),
    ...(skip === undefined ? {} : { skip: ({ req, res }) => skip(req, res) }),
    ...(onReject === undefined ? {} : { onReject: (decision, { req, res }) => onReject(decision, req, res) }),
  };
}

/** Options that the core knows by the same name. */
function asGiven(options: RateLimitOptions): Partial<LimiterOptions<Context>> {
  const names = [
    'client', 'enabled', 'url', 'token', 'deadlineMs', 'name', 'domain', 'trustedProxies', 'header', 'standardHeaders',
    'legacyHeaders', 'validate', 'logger',
  ] as const;
  return Object.fromEntries(names.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]));
}

function refuseUnknown(options: RateLimitOptions): void {
  // What is undefined is as if it were not there.
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name] of given) {
    if (Object.hasOwn(KNOWN, name)) continue;
    if (Object.hasOwn(INSTEAD, name)) throw new TidegateError(INSTEAD[name]);
    const meant = Object.keys(KNOWN).find((known) => known.toLowerCase() === name.toLowerCase());
    throw new TidegateError(`unknown option ${name}${meant ? `: it is spelt ${meant}` : '; the README of tidegate lists all there are'}`);
  }
}

function refuseHeaders({ standardHeaders, headers, legacyHeaders }: RateLimitOptions): void {
  if (standardHeaders !== undefined && !STANDARD_HEADERS.includes(standardHeaders)) {
    const allowed = STANDARD_HEADERS.map((one) => JSON.stringify(one)).join(', ');
    throw new TidegateError(`standardHeaders must be one of ${allowed}, got ${JSON.stringify(standardHeaders)}; drafts 8 to 11 look the same`);
  }
  if (headers !== undefined && legacyHeaders !== undefined) {
    throw new TidegateError('headers is the old name of legacyHeaders: give one of them');
  }
}

/** `false` counts every address by itself. */
function prefixOf(ipv6Subnet: RateLimitOptions['ipv6Subnet'] & {}): number | ((context: Context) => Promise<number>) {
  const bits = (subnet: number | false): number => (subnet === false ? 128 : subnet);
  if (typeof ipv6Subnet !== 'function') return bits(ipv6Subnet);
  return async ({ req, res }) => bits(await ipv6Subnet(req, res));
}

function fallbackOf({ fallback, passOnStoreError }: RateLimitOptions): RateLimitOptions['fallback'] {
  if (passOnStoreError === undefined) return fallback;
  if (fallback !== undefined) throw new TidegateError('passOnStoreError and fallback say the same: give one of them');
  return passOnStoreError ? 'allow' : 'deny';
}

function whatIsLimited(options: RateLimitOptions): Pick<LimiterOptions<Context>, 'limits' | 'descriptors'> {
  const { descriptors, limits, identifier, windowMs, limit, max } = options;
  const counted = windowMs !== undefined || limit !== undefined || max !== undefined;
  if ([descriptors !== undefined, limits !== undefined, counted].filter(Boolean).length > 1) {
    throw new TidegateError('give one of: windowMs and limit, or limits, or descriptors (which have their limits in the rules)');
  }
  if (limit !== undefined && max !== undefined) throw new TidegateError('max is the old name of limit: give one of them');
  if (descriptors !== undefined) return { descriptors: ofContext(descriptors) };
  if (limits !== undefined) {
    if (identifier !== undefined) throw new TidegateError('identifier goes with windowMs and limit; name limits in the list: { requests, per, name }');
    return { limits: ofContext(limits) };
  }
  return { limits: windowOf(options) };
}

/** The one limit of `windowMs` and `limit`. */
function windowOf(options: RateLimitOptions): LimiterOptions<Context>['limits'] & {} {
  const per = perOf(options.windowMs ?? DEFAULT_WINDOW_MS);
  const limit = options.limit ?? options.max ?? DEFAULT_LIMIT;
  const one = (requests: number): Limit[] => {
    if (!Number.isInteger(requests) || requests < 0) {
      throw new TidegateError(`limit must be a whole number from 0 on, got ${requests}`);
    }
    return [{ requests, per }];
  };
  if (typeof limit !== 'function') return one(limit);
  return async ({ req, res }) => one(await limit(req, res));
}

/** A function of request and response as one of the core. */
function ofContext<T>(value: ValueOrFunction<T>): T | ((context: Context) => T | Promise<T>) {
  if (typeof value !== 'function') return value;
  const made = value as (req: Context['req'], res: Context['res']) => T | Promise<T>;
  return ({ req, res }) => made(req, res);
}
