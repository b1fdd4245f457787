import { limitIdentity } from './limit-numbers.js';
import type { Limit } from './limits.js';

/** How many limiters without a name have a limit, by its identity. */
const counts: Map<string, number> = ((globalThis as Record<symbol, unknown>)[Symbol.for('tidegate.scopes')] ??= new Map<
  string,
  number
>()) as Map<string, number>;

/**
 * So many limiters with the same limits are told apart at most. An app that makes more of them makes one per
 * request, and each would begin with a full limit.
 */
const MOST = 100;

/** What a limiter without a name counts under. */
export interface OwnScope {
  /** `limiter`, `limiter#2`, `limiter:dynamic`… */
  readonly scope: string;
  /** Whether a limiter without a name was made before that has one of the same limits. */
  readonly twin: boolean;
}

/**
 * Returns the scope of a limiter that has no name: the first with these limits is `limiter`, the next
 * `limiter#2`. It is the order in which a process makes them, so that all processes of an app agree. One
 * limit in common is enough to be told apart, as they would share its counter. Limiters that are made while
 * a request is handled are not told apart, or none would ever deny. `limits` is undefined if they are a
 * function of the request.
 */
export function ownScope(limits: readonly Limit[] | undefined, inRequest: boolean): OwnScope {
  const word = limits ? 'limiter' : 'limiter:dynamic';
  if (inRequest) return { scope: word, twin: false };
  const keys = limits ? limits.map(limitIdentity) : [word];
  const count = Math.min(1 + Math.max(...keys.map((key) => counts.get(key) ?? 0)), MOST);
  for (const key of keys) counts.set(key, count);
  return { scope: count === 1 ? word : `${word}#${count}`, twin: count > 1 };
}

/** As if no limiter had been made yet; for tests. */
export function forgetScopes(): void {
  counts.clear();
}
