import { TidegateError } from './errors.js';
import type { Fallback } from './fallback.js';
import type { Limit } from './limits.js';
import type { Logger } from './warnings.js';

/** How a `Tidegate` client finds the service, and what it does without it. */
export interface ClientOptions {
  /** Of the HTTP API; the variable `TIDEGATE_URL` unless told, else `http://localhost:8080`. */
  readonly url?: string;
  /** Sent as `Authorization: Bearer`, if the service wants one; the variable `TIDEGATE_TOKEN` unless told. */
  readonly token?: string;
  /** How long a decision may take as a whole; 250 ms unless told. Then the fallback decides. */
  readonly deadlineMs?: number;
  /** Who decides if the service does not; `local` unless told. */
  readonly fallback?: Fallback;
  /** Limits for `local` where a request has none of its own, as when rules of the service apply. */
  readonly localLimits?: string | readonly Limit[];
  /** Batches under way at the same time; 2 unless told. */
  readonly maxInFlight?: number;
  /** False lets everything pass, and asks nobody; true unless told. */
  readonly enabled?: boolean;
  /** Where warnings go; `console` unless told. */
  readonly logger?: Logger;
}

/** Options of `Tidegate.local`. */
export interface LocalOptions {
  /** Limits where a request has none of its own, as when rules of the service would apply. */
  readonly localLimits?: string | readonly Limit[];
  /** Milliseconds since the epoch; the clock of the process unless told. */
  readonly now?: () => number;
  /** Where warnings go; `console` unless told. */
  readonly logger?: Logger;
}

/** For one check. */
export interface CheckOptions {
  /** In place of the client's. */
  readonly fallback?: Fallback;
  /** In place of the client's. */
  readonly deadlineMs?: number;
}

const DEFAULT_URL = 'http://localhost:8080';

/** Returns where the service is: as told, as the environment says, or on this machine. */
export function urlOf(url: string | undefined): string {
  return url ?? fromEnvironment('TIDEGATE_URL') ?? DEFAULT_URL;
}

/** Returns the bearer token: as told, or as the environment says. */
export function tokenOf(token: string | undefined): string | undefined {
  return token ?? fromEnvironment('TIDEGATE_TOKEN');
}

/** A variable that is there and empty counts as missing. */
function fromEnvironment(name: string): string | undefined {
  return process.env[name]?.trim() || undefined;
}

/** A timer for longer goes off at once. */
const MOST = 2 ** 31 - 1;

/** Returns the value if it is a number that a timer or a count takes. */
export function positive(name: string, value: number): number {
  if (!(value >= 1 && value <= MOST)) throw new TidegateError(`${name} must be from 1 to ${MOST}, got ${value}`);
  return value;
}

/** Refuses what is no fallback: a misspelt one would otherwise count as another. */
export function fallbackOf(fallback: Fallback): Fallback {
  if (fallback !== 'allow' && fallback !== 'deny' && fallback !== 'local') {
    throw new TidegateError(`fallback must be "allow", "deny" or "local", got ${JSON.stringify(fallback)}`);
  }
  return fallback;
}
