import { TidegateError } from './errors.js';
import type { Context, RateLimitOptions, ValueOrFunction } from './express.js';
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
  route: true, cost: true, domain: true, descriptors: true, fallback: true, trustedProxies: true, header: true,
  reserve: true, reserveTtlMs: true, onReject: true, logger: true,
};

/** Reads the options of the middleware into those of the core, and refuses what makes no sense. */
export function optionsOf(options: RateLimitOptions): LimiterOptions<Context> {
  refuseUnknown(options);
  const byResult = Boolean(options.skipFailedRequests || options.skipSuccessfulRequests);
  const { ipv6Subnet, keyGenerator, onReject, skip } = options;
  const fallback = fallbackOf(options);
  return {
    ...asGiven(options),
    ...whatIsLimited(options),
    reserve: byResult || options.reserve === true,
    reserveTtlMs: options.reserveTtlMs ?? RESULT_TTL_MS,
    ...(ipv6Subnet === undefined ? {} : { ipv6Prefix: ipv6Subnet === false ? 128 : ipv6Subnet }),
    ...(fallback === undefined ? {} : { fallback }),
    ...(options.route === undefined ? {} : { route: ofContext(options.route) }),
    ...(options.cost === undefined ? {} : { cost: ofContext(options.cost) }),
    ...(keyGenerator === undefined ? {} : { key: ({ req, res }) => keyGenerator(req, res) }),
    ...(skip === undefined ? {} : { skip: ({ req, res }) => skip(req, res) }),
    ...(onReject === undefined ? {} : { onReject: (decision, { req, res }) => onReject(decision, req, res) }),
  };
}

/** Options that the core knows by the same name. */
function asGiven(options: RateLimitOptions): Partial<LimiterOptions<Context>> {
  const names = [
    'client', 'url', 'token', 'deadlineMs', 'domain', 'trustedProxies', 'header', 'standardHeaders',
    'legacyHeaders', 'validate', 'logger',
  ] as const;
  return Object.fromEntries(names.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]));
}

function refuseUnknown(options: RateLimitOptions): void {
  for (const name of Object.keys(options)) {
    if (name === 'store') {
      throw new TidegateError(
        'store is no option of tidegate: the service keeps the counters, for all processes. Leave it out, and set url to where the service is',
      );
    }
    if (!Object.hasOwn(KNOWN, name)) {
      const meant = Object.keys(KNOWN).find((known) => known.toLowerCase() === name.toLowerCase());
      throw new TidegateError(`unknown option ${name}${meant ? `: it is spelt ${meant}` : '; the README of tidegate lists all there are'}`);
    }
  }
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

/** The one limit of `windowMs`, `limit` and `identifier`. */
function windowOf(options: RateLimitOptions): LimiterOptions<Context>['limits'] & {} {
  const per = perOf(options.windowMs ?? DEFAULT_WINDOW_MS);
  const limit = options.limit ?? options.max ?? DEFAULT_LIMIT;
  const { identifier } = options;
  const one = (requests: number, name: string | undefined): Limit[] => {
    if (!Number.isInteger(requests) || requests < 0) {
      throw new TidegateError(`limit must be a whole number from 0 on, got ${requests}`);
    }
    return [{ requests, per, ...(name === undefined ? {} : { name }) }];
  };
  if (typeof limit !== 'function' && typeof identifier !== 'function') return one(limit, identifier);
  return async ({ req, res }) =>
    one(
      typeof limit === 'function' ? await limit(req, res) : limit,
      typeof identifier === 'function' ? await identifier(req, res) : identifier,
    );
}

/** A function of request and response as one of the core. */
function ofContext<T>(value: ValueOrFunction<T>): T | ((context: Context) => T | Promise<T>) {
  if (typeof value !== 'function') return value;
  const made = value as (req: Context['req'], res: Context['res']) => T | Promise<T>;
  return ({ req, res }) => made(req, res);
}
