import type { Numbers } from './algorithms/index.js';
import { TidegateError } from './errors.js';
import { windowMs, type Algorithm, type Limit } from './limits.js';

/** Limits of up to this many requests are exact by default, as in the service. */
const MAX_EXACT = 10;
/** The number of buckets of `sub_windows`. */
const BUCKETS = 60;

const MAX_LIMITS = 16;
const MAX_COUNT = 2 ** 53;
const MAX_LOG_REQUESTS = 1_000_000;
const MAX_WINDOW_MS = 10 * 365 * 86_400_000;

const ALGORITHMS: readonly Algorithm[] = [
  'fixed_window', 'sliding_window', 'sub_windows', 'sliding_log', 'token_bucket', 'gcra', 'leaky_bucket',
];
const BUCKETED: readonly Algorithm[] = ['token_bucket', 'gcra', 'leaky_bucket'];
const FIELDS: Readonly<Record<keyof Limit, true>> = { requests: true, per: true, algorithm: true, burst: true, name: true };

/** Returns the algorithm of a limit, given or by default. */
export function algorithmOf({ algorithm, burst, requests }: Limit): Algorithm {
  if (algorithm !== undefined) return algorithm;
  if (burst !== undefined) return 'token_bucket';
  return requests <= MAX_EXACT ? 'sliding_log' : 'sliding_window';
}

/** Returns the algorithm of a limit, with `token_bucket` for `gcra`, which is another name of it. */
export function countingAlgorithm(limit: Limit): Algorithm {
  const algorithm = algorithmOf(limit);
  return algorithm === 'gcra' ? 'token_bucket' : algorithm;
}

/** Returns the numbers of a limit for the algorithms. */
export function numbersOf(limit: Limit): Numbers {
  const burst = limit.burst ?? (algorithmOf(limit) === 'leaky_bucket' ? 1 : Math.max(limit.requests, 1));
  return { requests: limit.requests, periodUs: windowMs(limit.per) * 1_000, burst, buckets: BUCKETS };
}

/**
 * Returns what tells the counter of a limit from others of the same scope and client. That is its name, window and
 * algorithm, or without a name its requests, burst, window and algorithm. Defaults count as if they were written out.
 */
export function limitIdentity(limit: Limit): string {
  const family = [windowMs(limit.per), countingAlgorithm(limit)];
  if (limit.name !== undefined) return JSON.stringify([...family, limit.name]);
  return JSON.stringify([...family, limit.requests, numbersOf(limit).burst]);
}

/**
 * Returns the limits if the service would accept them, so that a mistake is an error when the app starts and not with
 * every request.
 *
 * @throws {TidegateError} that names the limit and what to write instead.
 */
export function checkedLimits(limits: readonly Limit[]): readonly Limit[] {
  if (!Array.isArray(limits) || limits.length < 1 || limits.length > MAX_LIMITS) {
    throw new TidegateError(`limits must be a list of 1 to ${MAX_LIMITS} limits, such as [{ requests: 10, per: 'minute' }]`);
  }
  for (const [index, limit] of limits.entries()) check(limit as Limit, `limits[${index}]`);
  refuseTwice(limits as readonly Limit[]);
  return limits as readonly Limit[];
}

/** Throws if two limits of a list have the same name or would be charged to the same counter. */
function refuseTwice(limits: readonly Limit[]): void {
  const names = new Set<string>();
  const indexes = new Map<string, number>();
  for (const [index, limit] of limits.entries()) {
    const { name } = limit;
    if (name !== undefined && names.has(name)) {
      throw new TidegateError(`two limits of one list have the name ${JSON.stringify(name)}: give each a name of its own`);
    }
    if (name !== undefined) names.add(name);
    const identity = limitIdentity(limit);
    const same = indexes.get(identity);
    if (same !== undefined) {
      throw new TidegateError(`limits[${index}] is the same limit as limits[${same}]: remove one, or give each a name of its own`);
    }
    indexes.set(identity, index);
  }
}

function check(limit: Limit, where: string): void {
  const refuse = (field: string, problem: string): never => {
    throw new TidegateError(`${where}.${field} ${problem}`);
  };
  if (typeof limit !== 'object' || limit === null) throw new TidegateError(`${where} must be an object such as { requests: 10, per: 'minute' }`);
  const unknown = Object.keys(limit).find((field) => !Object.hasOwn(FIELDS, field));
  if (unknown !== undefined) refuse(unknown, `is not a field of a limit; it may have ${Object.keys(FIELDS).join(', ')}`);
  const { requests, per, algorithm, burst, name } = limit;
  if (!isCount(requests)) refuse('requests', `must be a whole number from 0 to 2^53, got ${requests}`);
  const lengthMs = windowMs(per);
  if (lengthMs < 1 || lengthMs > MAX_WINDOW_MS) refuse('per', `must be from 1 ms to 10 years, got ${JSON.stringify(per)}`);
  if (algorithm !== undefined && !ALGORITHMS.includes(algorithm)) {
    refuse('algorithm', `must be one of ${ALGORITHMS.join(', ')}, got ${JSON.stringify(algorithm)}`);
  }
  if (algorithm === 'sliding_log' && requests > MAX_LOG_REQUESTS) refuse('requests', `must be at most ${MAX_LOG_REQUESTS} for sliding_log; use sub_windows`);
  if (burst !== undefined) {
    if (!isCount(burst) || burst < 1) refuse('burst', `must be a whole number from 1 to 2^53, got ${burst}`);
    if (!BUCKETED.includes(algorithmOf(limit))) refuse('burst', `belongs to ${BUCKETED.join(', ')}, but the algorithm is ${algorithm}`);
    if (requests > 0 && (burst / requests) * lengthMs > MAX_WINDOW_MS) refuse('burst', 'takes over 10 years to drain; lower it or raise requests');
  }
  if (name !== undefined && (typeof name !== 'string' || name === '')) refuse('name', 'must be a non-empty string');
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_COUNT;
}
