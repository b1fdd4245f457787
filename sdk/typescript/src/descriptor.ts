import { TidegateError } from './errors.js';
import { limitsOf, type Limit } from './limits.js';

/** One `key=value` of a descriptor. */
export interface Entry {
  readonly key: string;
  readonly value: string;
}

/** A descriptor in full. */
export interface FullDescriptor {
  readonly entries: readonly Entry[];
  /** Stand in place of the rules' limits, where the domain allows it. */
  readonly limits?: readonly Limit[];
  /** Units that this descriptor takes, in place of the request's. */
  readonly cost?: number;
}

/**
 * What describes one aspect of a request: `{ user: 'ann' }`, or pairs where a key comes twice
 * (`[['user', 'ann'], ['path', '/']]`), or in full.
 */
export type Descriptor =
  | FullDescriptor
  | Readonly<Record<string, string>>
  | readonly (readonly [key: string, value: string])[];

/** What is asked of the service. */
export interface CheckRequest {
  /** The domain of the rules; `apps` unless told, which takes limits from the request. */
  readonly domain?: string;
  /** One descriptor. */
  readonly descriptor?: Descriptor;
  /** Several: all must be within their limits, or nothing is taken from any. */
  readonly descriptors?: readonly Descriptor[];
  /** Limits for all descriptors that have none of their own: `"10/minute;200/hour"`. */
  readonly limits?: string | readonly Limit[];
  /** Units the request takes, 1 unless told; 0 only looks. */
  readonly cost?: number;
}

/** A request as it is sent. */
export interface Asked {
  readonly domain: string;
  readonly descriptors: readonly FullDescriptor[];
  readonly cost: number;
}

/** The domain that takes limits from requests, in the rules that the service comes with. */
export const DEFAULT_DOMAIN = 'apps';

/** Brings a request into the form that is sent. */
export function askedOf(request: CheckRequest): Asked {
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
    // JSON would quietly leave an undefined value out.
    if (typeof value !== 'string') {
      throw new TidegateError(`the value of the entry ${JSON.stringify(key)} must be a string, got ${typeof value}`);
    }
  }
  const charged = full.cost === undefined ? full : { ...full, cost: costOf(full.cost) };
  return limits === undefined || full.limits !== undefined ? charged : { ...charged, limits };
}

/** Units are 53 bits on the wire. */
const MOST_COST = 2 ** 53;

/** A cost as it is sent: a client that can name one has no use of naming more than there is. */
export function costOf(cost: number): number {
  const most = Math.min(cost, MOST_COST);
  if (!Number.isInteger(most) || most < 0) throw new TidegateError(`a cost must be a whole number from 0 on, got ${cost}`);
  return most;
}

/** The descriptor with its values changed; what is no text is left for {@link askedOf} to refuse. */
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
