import { limitIdentity } from './limit-numbers.js';
import type { Limit } from './limits.js';

/** The number of limiters without a name that have a limit, by its identity. */
const counts: Map<string, number> = ((globalThis as Record<symbol, unknown>)[Symbol.for('tidegate.scopes')] ??= new Map<
  string,
  number
>()) as Map<string, number>;

/**
 * The highest number of a limiter. An app that creates more with the same limits creates one per request, and each
 * would begin with a full limit.
 */
const MAX = 100;

/** The scope of the counters of a limiter without a name. */
export interface UnnamedScope {
  /** `limiter`, `limiter#2`, `limiter:dynamic` and so on. */
  readonly scope: string;
  /** Whether an earlier limiter without a name has one of the same limits. */
  readonly twin: boolean;
}

/**
 * Returns the scope of a limiter without a name: the first with these limits is `limiter`, the next `limiter#2`. The
 * number is the order in which a process creates them, so that all processes of an app agree. Limiters that share only
 * one of their limits have different numbers, too, because they would share its counter. Limiters that are created
 * while a request is handled all have the same scope: otherwise each would begin with a full limit, and none would
 * ever deny. `limits` is undefined if they are a function of the request.
 */
export function unnamedScope(limits: readonly Limit[] | undefined, inRequest: boolean): UnnamedScope {
  const word = limits ? 'limiter' : 'limiter:dynamic';
  if (inRequest) return { scope: word, twin: false };
  const keys = limits ? limits.map(limitIdentity) : [word];
  const count = Math.min(1 + Math.max(...keys.map((key) => counts.get(key) ?? 0)), MAX);
  for (const key of keys) counts.set(key, count);
  return { scope: count === 1 ? word : `${word}#${count}`, twin: count > 1 };
}

/** Starts numbering from 1, for tests. */
export function resetScopes(): void {
  counts.clear();
}
