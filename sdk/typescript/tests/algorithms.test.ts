/** The algorithms of this package against the vectors that the service's are held to, to the microsecond. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { counterOf, type Numbers, type Verdict } from '../src/algorithms/index.js';
import type { Algorithm } from '../src/limits.js';

interface WrittenLimit {
  readonly algorithm: Algorithm;
  readonly requests: number;
  readonly period_us: number;
  readonly burst?: number;
  readonly buckets?: number;
  readonly mode?: 'meter' | 'queue';
  readonly calendar?: unknown;
}

interface Expected {
  readonly allowed: boolean;
  readonly remaining: number;
  readonly reset_after_us: number;
  readonly retry_after_us?: number | null;
}

interface Step {
  readonly at_us: number;
  readonly op: 'charge' | 'hold' | 'take' | 'refund' | 'peek' | 'relimit';
  readonly cost?: number;
  readonly limit?: WrittenLimit;
  readonly expect?: Expected;
}

interface Vector {
  readonly name: string;
  readonly limit: WrittenLimit;
  readonly steps: readonly Step[];
}

const numbersOf = (limit: WrittenLimit): Numbers => ({
  requests: limit.requests,
  periodUs: limit.period_us,
  burst: limit.burst ?? limit.requests,
  buckets: limit.buckets ?? 60,
});

const expectedOf = ({ allowed, remaining, resetAfterUs, retryAfterUs }: Verdict): Expected => ({
  allowed,
  remaining,
  reset_after_us: resetAfterUs,
  ...(allowed ? {} : { retry_after_us: retryAfterUs }),
});

const ALGORITHMS = ['fixed_window', 'sliding_window', 'sub_windows', 'sliding_log', 'token_bucket', 'leaky_bucket'] as const;

describe.each(ALGORITHMS)('%s', (algorithm) => {
  const file = new URL(`../../../crates/core/src/algorithm/${algorithm}/vectors.json`, import.meta.url);
  // Limits in code have neither a calendar nor a queue.
  const inCode = (limit: WrittenLimit | undefined): boolean => limit?.calendar === undefined && limit?.mode !== 'queue';
  const vectors = (JSON.parse(readFileSync(file, 'utf8')) as Vector[]).filter(
    ({ limit, steps }) => inCode(limit) && steps.every((step) => inCode(step.limit)),
  );

  test.each(vectors)('$name', ({ limit: first, steps }) => {
    let limit = numbersOf(first);
    const counter = counterOf(algorithm, limit);
    for (const [index, { at_us: at, op, cost = 0, limit: next, expect: expected }] of steps.entries()) {
      let verdict: Verdict | undefined;
      if (op === 'relimit') limit = numbersOf(next as WrittenLimit);
      else if (op === 'charge' || op === 'hold' || op === 'peek') {
        verdict = counter.assess(limit, cost, at);
        if (verdict.allowed && cost > 0) counter.take(limit, cost, at);
        else if (cost > 0) counter.adoptNumbers?.(limit, at);
      } else {
        if (op === 'take') counter.take(limit, cost, at);
        else counter.giveBack(limit, cost, at);
        verdict = counter.assess(limit, 0, at);
      }
      if (verdict) expect(expectedOf(verdict), `step ${index}`).toEqual(expected);
    }
  });
});
