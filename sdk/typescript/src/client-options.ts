import { TidegateError } from './errors.js';
import type { Fallback } from './fallback.js';
import type { Limit } from './limits.js';
import type { Logger } from './warnings.js';

/** Options of a {@link Tidegate} client. */
export interface ClientOptions {
  /** URL of the service's HTTP API. Default: the environment variable `TIDEGATE_URL`, else `http://localhost:8080`. */
  readonly url?: string;
  /** Bearer token, if the service requires one. Default: the environment variable `TIDEGATE_TOKEN`. */
  readonly token?: string;
  /** Milliseconds until a decision has to be made; then the fallback decides. Default: 250. */
  readonly deadlineMs?: number;
  /** What decides if the service cannot be reached or is too slow. Default: `'local'`. */
  readonly fallback?: Fallback;
  /** Limits that the `'local'` fallback counts where a request has none, such as `"100/minute"`. */
  readonly localLimits?: string | readonly Limit[];
  /** Batches under way at the same time. Default: 2. */
  readonly maxInFlight?: number;
  /** False lets every request pass without asking the service. Default: true. */
  readonly enabled?: boolean;
  /** Receives warnings and errors. Default: `console`. */
  readonly logger?: Logger;
}

/** Options of {@link Tidegate.local}. */
export interface LocalOptions {
  /** Limits that are counted where a request has none, such as `"100/minute"`. */
  readonly localLimits?: string | readonly Limit[];
  /** Returns milliseconds since the epoch. Default: the clock of the process. */
  readonly now?: () => number;
  /** Receives warnings and errors. Default: `console`. */
  readonly logger?: Logger;
}

/** Options of one call that replace those of the client. */
export interface CheckOptions {
  /** What decides if the service cannot be reached or is too slow. */
  readonly fallback?: Fallback;
  /** Milliseconds until a decision has to be made. */
  readonly deadlineMs?: number;
}

const DEFAULT_URL = 'http://localhost:8080';

/** Returns the URL of the service: the option, the environment variable, or the default. */
export function urlOf(url: string | undefined): string {
  return url ?? fromEnvironment('TIDEGATE_URL') ?? DEFAULT_URL;
}

/** Returns the bearer token: the option, or the environment variable. */
export function tokenOf(token: string | undefined): string | undefined {
  return token ?? fromEnvironment('TIDEGATE_TOKEN');
}

/** Returns an environment variable; an empty one counts as missing. */
function fromEnvironment(name: string): string | undefined {
  return process.env[name]?.trim() || undefined;
}

/** The longest delay of a timer of Node; a longer one fires at once. */
const MAX = 2 ** 31 - 1;

/** Returns the value if it is a number from 1 to the longest delay of a timer. */
export function positive(name: string, value: number): number {
  if (!(value >= 1 && value <= MAX)) throw new TidegateError(`${name} must be from 1 to ${MAX}, got ${value}`);
  return value;
}

/** Returns the value if it is a fallback; a misspelt one is an error instead of a default. */
export function fallbackOf(fallback: Fallback): Fallback {
  if (fallback !== 'allow' && fallback !== 'deny' && fallback !== 'local') {
    throw new TidegateError(`fallback must be "allow", "deny" or "local", got ${JSON.stringify(fallback)}`);
  }
  return fallback;
}
