import { TidegateError } from './errors.js';
import type { Context, RateLimitOptions, ValueOrFunction } from './express.js';
import { STANDARD_HEADERS } from './headers.js';
import type { LimiterOptions } from './limiter-options.js';
import { perOf, type Limit } from './limits.js';

/** The defaults of express-rate-limit. */
const DEFAULT_WINDOW_MS = 60_000;
const DEFAULT_LIMIT = 5;
/** How long a reservation of a request can be settled: longer than any request should take. */
const RESULT_TTL_MS = 600_000;

const KNOWN: Readonly<Record<keyof RateLimitOptions, true>> = {
  windowMs: true, limit: true, max: true, message: true, statusCode: true, handler: true, legacyHeaders: true,
  standardHeaders: true, identifier: true, requestPropertyName: true, skip: true, skipFailedRequests: true,
  skipSuccessfulRequests: true, requestWasSuccessful: true, keyGenerator: true, ipv6Subnet: true,
  passOnStoreError: true, validate: true, client: true, url: true, token: true, deadlineMs: true, limits: true,
  name: true, cost: true, domain: true, descriptors: true, fallback: true, trustedProxies: true, header: true,
  reserve: true, reserveTtlMs: true, onReject: true, logger: true, enabled: true, headers: true,
};

/** What to write in place of options of express-rate-limit, and of other versions, that do not exist here. */
const REPLACEMENTS: Readonly<Record<string, string>> = {
  store:
    'store is not an option of tidegate: the service keeps the counters of all processes. Remove it, and set url to the URL ' +
    'of the service; for tests and apps of one process set client: Tidegate.local()',
  route: 'route is called name: limiters with the same name share their counters. Without one, a limiter has counters of its own, whatever the path',
  onLimitReached: 'onLimitReached does not exist: use handler, which is called for every denial',
  draft_polli_ratelimit_headers: "draft_polli_ratelimit_headers is called standardHeaders: 'draft-6'",
  delayMs: 'delayMs is not an option: requests are denied, not delayed. Remove it',
  delayAfter: 'delayAfter is not an option: requests are denied, not delayed. Remove it',
  retryAfter:
    'retryAfter is not an option, nor is it one of express-rate-limit: remove it, Retry-After is sent with every denial. ' +
    'To have it in the body, write message: (req) => ({ error: "slow down", retryAfter: req.rateLimit.decision.retryAfter })',
};

/** Returns the options of a {@link Limiter} for those of the middleware; throws if they are unknown or contradict each other. */
export function limiterOptionsOf(options: RateLimitOptions): LimiterOptions<Context> {
  refuseUnknown(options);
  refuseHeaders(options);
  const byResult = Boolean(options.skipFailedRequests || options.skipSuccessfulRequests);
  const { ipv6Subnet, keyGenerator, onReject, skip } = options;
  const fallback = fallbackOf(options);
  return {
    ...sharedOptions(options),
    ...limitsOrDescriptors(options),
    reserve: byResult || options.reserve === true,
    reserveTtlMs: options.reserveTtlMs ?? RESULT_TTL_MS,
    ...(ipv6Subnet === undefined ? {} : { ipv6Prefix: prefixOf(ipv6Subnet) }),
    ...(fallback === undefined ? {} : { fallback }),
    ...(options.identifier === undefined ? {} : { identifier: withContext(options.identifier) }),
    ...(options.headers === undefined ? {} : { legacyHeaders: options.headers }),
    ...(options.cost === undefined ? {} : { cost: withContext(options.cost) }),
    ...(keyGenerator === undefined ? {} : { key: ({ req, res }) => keyGenerator(req, res) }),
    ...(skip === undefined ? {} : { skip: ({ req, res }) => skip(req, res) }),
    ...(onReject === undefined ? {} : { onReject: (decision, { req, res }) => onReject(decision, req, res) }),
  };
}

/** Returns the options that the {@link Limiter} has by the same name. */
function sharedOptions(options: RateLimitOptions): Partial<LimiterOptions<Context>> {
  const names = [
    'client', 'enabled', 'url', 'token', 'deadlineMs', 'name', 'domain', 'trustedProxies', 'header', 'standardHeaders',
    'legacyHeaders', 'validate', 'logger',
  ] as const;
  return Object.fromEntries(names.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]));
}

function refuseUnknown(options: RateLimitOptions): void {
  // An option that is undefined counts as missing.
  const present = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name] of present) {
    if (Object.hasOwn(KNOWN, name)) continue;
    if (Object.hasOwn(REPLACEMENTS, name)) throw new TidegateError(REPLACEMENTS[name]);
    const similar = Object.keys(KNOWN).find((known) => known.toLowerCase() === name.toLowerCase());
    throw new TidegateError(`unknown option ${name}${similar ? `: it is spelt ${similar}` : '; the README of tidegate lists all options'}`);
  }
}

function refuseHeaders({ standardHeaders, headers, legacyHeaders }: RateLimitOptions): void {
  if (standardHeaders !== undefined && !STANDARD_HEADERS.includes(standardHeaders)) {
    const allowed = STANDARD_HEADERS.map((one) => JSON.stringify(one)).join(', ');
    throw new TidegateError(`standardHeaders must be one of ${allowed}, got ${JSON.stringify(standardHeaders)}; drafts 8 to 11 look the same`);
  }
  if (headers !== undefined && legacyHeaders !== undefined) {
    throw new TidegateError('headers is the old name of legacyHeaders: give only one of them');
  }
}

/** Returns the bits of IPv6 networks; `false` stands for 128, which counts every address by itself. */
function prefixOf(ipv6Subnet: RateLimitOptions['ipv6Subnet'] & {}): number | ((context: Context) => Promise<number>) {
  const bits = (subnet: number | false): number => (subnet === false ? 128 : subnet);
  if (typeof ipv6Subnet !== 'function') return bits(ipv6Subnet);
  return async ({ req, res }) => bits(await ipv6Subnet(req, res));
}

function fallbackOf({ fallback, passOnStoreError }: RateLimitOptions): RateLimitOptions['fallback'] {
  if (passOnStoreError === undefined) return fallback;
  if (fallback !== undefined) throw new TidegateError('passOnStoreError and fallback mean the same: give only one of them');
  return passOnStoreError ? 'allow' : 'deny';
}

function limitsOrDescriptors(options: RateLimitOptions): Pick<LimiterOptions<Context>, 'limits' | 'descriptors'> {
  const { descriptors, limits, identifier, windowMs, limit, max } = options;
  const counted = windowMs !== undefined || limit !== undefined || max !== undefined;
  if ([descriptors !== undefined, limits !== undefined, counted].filter(Boolean).length > 1) {
    throw new TidegateError('give only one of: windowMs and limit, limits, or descriptors (whose limits are in the rules of the service)');
  }
  if (limit !== undefined && max !== undefined) throw new TidegateError('max is the old name of limit: give only one of them');
  if (descriptors !== undefined) return { descriptors: withContext(descriptors) };
  if (limits !== undefined) {
    if (identifier !== undefined) throw new TidegateError('identifier is for windowMs and limit; give limits a name in the list: { requests, per, name }');
    return { limits: withContext(limits) };
  }
  return { limits: windowOf(options) };
}

/** Returns the limit of the options `windowMs` and `limit`. */
function windowOf(options: RateLimitOptions): LimiterOptions<Context>['limits'] & {} {
  const per = perOf(options.windowMs ?? DEFAULT_WINDOW_MS);
  const limit = options.limit ?? options.max ?? DEFAULT_LIMIT;
  const one = (requests: number): Limit[] => {
    if (!Number.isInteger(requests) || requests < 0) {
      throw new TidegateError(`limit must be a whole number, 0 or more, got ${requests}`);
    }
    return [{ requests, per }];
  };
  if (typeof limit !== 'function') return one(limit);
  return async ({ req, res }) => one(await limit(req, res));
}

/** Turns a function of request and response into one of the context. */
function withContext<T>(value: ValueOrFunction<T>): T | ((context: Context) => T | Promise<T>) {
  if (typeof value !== 'function') return value;
  const call = value as (req: Context['req'], res: Context['res']) => T | Promise<T>;
  return ({ req, res }) => call(req, res);
}
