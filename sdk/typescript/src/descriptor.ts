import { TidegateError } from './errors.js';
import { limitsOf, type Limit } from './limits.js';

/** One `key=value` entry of a descriptor. */
export interface Entry {
  readonly key: string;
  readonly value: string;
}

/** A descriptor with limits or a cost of its own. */
export interface FullDescriptor {
  /** The entries, in order. */
  readonly entries: readonly Entry[];
  /** Limits in code, in place of those of the rules. Default: those of the request. */
  readonly limits?: readonly Limit[];
  /** Units that are charged to this descriptor. Default: the cost of the request. */
  readonly cost?: number;
}

/**
 * Ordered `key=value` entries that describe one aspect of a request: an object `{ user: 'ann' }`, or pairs, in which a
 * key may occur twice (`[['user', 'ann'], ['path', '/']]`), or a {@link FullDescriptor}.
 */
export type Descriptor =
  | FullDescriptor
  | Readonly<Record<string, string>>
  | readonly (readonly [key: string, value: string])[];

/**
 * A request to decide: what it is about, and which limits apply.
 *
 * ```ts
 * await client.check({ descriptor: { user: 'ann' }, limits: '10/minute', cost: 2 });
 * ```
 */
export interface CheckRequest {
  /** The domain of the rules. Default: `'apps'`, which accepts limits in code. */
  readonly domain?: string;
  /** One descriptor. Give either this or `descriptors`. */
  readonly descriptor?: Descriptor;
  /** Several descriptors: all must be within their limits, or nothing is charged to any. */
  readonly descriptors?: readonly Descriptor[];
  /** Limits for all descriptors that have none of their own, such as `"10/minute;200/hour"`. Default: the rules apply. */
  readonly limits?: string | readonly Limit[];
  /** Units that the request costs; 0 returns the decision without charging it. Default: 1. */
  readonly cost?: number;
}

/** @internal A check as it is sent to the service and as the fallback counts it. */
export interface CheckBody {
  readonly domain: string;
  readonly descriptors: readonly FullDescriptor[];
  readonly cost: number;
}

/** The domain for limits in code. A service without rules has it built in; `tidegate init` writes it. */
export const DEFAULT_DOMAIN = 'apps';

/** Returns the body of a check; throws if it is invalid. */
export function checkBodyOf(request: CheckRequest): CheckBody {
  const { descriptor, descriptors } = request;
  if ((descriptor === undefined) === (descriptors === undefined)) {
    throw new TidegateError('a request needs either descriptor or descriptors');
  }
  const limits = request.limits === undefined ? undefined : limitsOf(request.limits);
  const all = descriptors ?? [descriptor as Descriptor];
  const cost = costOf(request.cost ?? 1);
  return { domain: request.domain ?? DEFAULT_DOMAIN, descriptors: all.map((one) => fullOf(one, limits)), cost };
}

function fullOf(descriptor: Descriptor, limits: readonly Limit[] | undefined): FullDescriptor {
  const full = isFull(descriptor) ? descriptor : { entries: entriesOf(descriptor) };
  for (const { key, value } of full.entries) {
    // JSON would silently omit an undefined value.
    if (typeof value !== 'string') {
      throw new TidegateError(`the value of the entry ${JSON.stringify(key)} must be a string, got ${typeof value}`);
    }
  }
  const charged = full.cost === undefined ? full : { ...full, cost: costOf(full.cost) };
  return limits === undefined || full.limits !== undefined ? charged : { ...charged, limits };
}

/** The largest cost that the service accepts. */
const MAX_COST = 2 ** 53;

/** Returns a cost as it is sent, at most 2^53; throws unless it is a whole number, 0 or more. */
export function costOf(cost: number): number {
  const most = Math.min(cost, MAX_COST);
  if (!Number.isInteger(most) || most < 0) throw new TidegateError(`a cost must be a whole number, 0 or more, got ${cost}`);
  return most;
}

/** Returns the descriptor with its values changed; values that are not strings are left for {@link checkBodyOf} to refuse. */
export function withValues(descriptor: Descriptor, change: (value: string) => string): FullDescriptor {
  const full = isFull(descriptor) ? descriptor : { entries: entriesOf(descriptor) };
  const changed = ({ key, value }: Entry): Entry => ({ key, value: typeof value === 'string' ? change(value) : value });
  return { ...full, entries: full.entries.map(changed) };
}

function isFull(descriptor: Descriptor): descriptor is FullDescriptor {
  return !isPairs(descriptor) && Array.isArray(descriptor['entries']);
}

function isPairs(descriptor: Descriptor): descriptor is readonly (readonly [string, string])[] {
  return Array.isArray(descriptor);
}

function entriesOf(descriptor: Exclude<Descriptor, FullDescriptor>): Entry[] {
  const pairs = isPairs(descriptor) ? descriptor : Object.entries(descriptor);
  return pairs.map(([key, value]) => ({ key, value }));
}
