/** Laws of the bound on the counters of a process: which of them is forgotten for a new key. */
import { describe, expect, test } from 'vitest';

import { checkBodyOf } from '../src/descriptor.js';
import { LocalLimiter, localCharges } from '../src/fallback.js';
import { numbersOf } from '../src/limit-numbers.js';
import type { Limit } from '../src/limits.js';

const MAX_KEYS = 100;
const FLOOD = 10 * MAX_KEYS;

const SMALL: Limit = { requests: 5, per: 'hour' };
const LIMITS: readonly Limit[] = [
  SMALL,
  { requests: 50, per: 'hour' },
  { requests: 5, per: 'hour', algorithm: 'fixed_window' },
  { requests: 5, per: 'hour', algorithm: 'sub_windows' },
  { requests: 5, per: 'day', burst: 5 },
  { requests: 5, per: 'day', algorithm: 'leaky_bucket', burst: 3 },
];

const limitOf = (index: number): Limit => LIMITS[index % LIMITS.length] as Limit;

/** Counters with a small bound, on a clock that the test moves. */
class Counters {
  readonly limiter: LocalLimiter;
  now = 1_700_000_000_000;

  constructor(maxKeys = MAX_KEYS) {
    this.limiter = new LocalLimiter({ maxKeys });
  }

  /** Charges a key, and returns whether the cost passed. */
  take(user: string, limit: Limit, cost = 1): boolean {
    const charges = localCharges(checkBodyOf({ descriptor: { user }, limits: [limit], cost }), undefined);
    return this.limiter.charge(charges, this.now)[0]?.allowed === true;
  }

  useUp(user: string, limit: Limit): void {
    expect(this.take(user, limit, numbersOf(limit).burst)).toBe(true);
  }

  remaining(user: string, limit: Limit): number | undefined {
    const charges = localCharges(checkBodyOf({ descriptor: { user }, limits: [limit], cost: 0 }), undefined);
    return this.limiter.charge(charges, this.now)[0]?.remaining;
  }
}

const VICTIMS = Array.from({ length: MAX_KEYS / 4 }, (_, index) => ({ user: `victim ${index}`, limit: limitOf(index) }));

/** Runs a flood against keys that are at their limits, and returns those that it freed. */
function freedBy(flood: (counters: Counters) => void): string[] {
  const counters = new Counters();
  for (const { user, limit } of VICTIMS) counters.useUp(user, limit);
  flood(counters);
  expect(counters.limiter.size).toBe(MAX_KEYS);
  return VICTIMS.filter(({ user, limit }) => counters.take(user, limit)).map(({ user }) => user);
}

/** Numbers that look random and are the same in each run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe('no key at its limit is freed by a flood', () => {
  test.each(LIMITS)('of keys that are used once: $algorithm $requests', (limit) => {
    expect(freedBy((counters) => {
      for (let index = 0; index < FLOOD; index += 1) expect(counters.take(`flood ${index}`, limit)).toBe(true);
    })).toEqual([]);
  });

  test('of keys that each use up their limit', () => {
    expect(freedBy((counters) => {
      for (let index = 0; index < FLOOD; index += 1) counters.useUp(`flood ${index}`, limitOf(index));
    })).toEqual([]);
  });

  test.each([1, 2, 3])('of any mix of short and long windows, and small and large costs: %d', (seed) => {
    const chance = random(seed);
    const limits: readonly Limit[] = [
      ...LIMITS, { requests: 1, per: 'second' }, { requests: 20, per: '10s' }, { requests: 3, per: 'minute', burst: 2 },
    ];
    expect(freedBy((counters) => {
      for (let index = 0; index < FLOOD; index += 1) {
        const limit = limits[Math.floor(chance() * limits.length)] as Limit;
        const cost = 1 + Math.floor(chance() * numbersOf(limit).burst);
        counters.take(`flood ${Math.floor(chance() * (index + 1))}`, limit, cost);
        // 170 s in all; the limits of the victims are longer.
        counters.now += [0, 10, 500][Math.floor(chance() * 3)] ?? 0;
      }
    })).toEqual([]);
  });
});

test('a key that has used much outlasts a flood of keys that use little', () => {
  const counters = new Counters();
  counters.take('ann', SMALL, 4);
  for (let index = 0; index < FLOOD; index += 1) counters.take(`flood ${index}`, SMALL);
  expect(counters.remaining('ann', SMALL)).toBe(1);
});

test('counters that have run out make room, whatever is before them', () => {
  const counters = new Counters();
  const users = Array.from({ length: MAX_KEYS - 1 }, (_, index) => String(index));
  counters.useUp('long', { requests: 5, per: 'day' });
  for (const user of users) counters.useUp(`short ${user}`, { requests: 1, per: 'second' });
  counters.now += 2_000;
  for (const user of users) counters.useUp(`late ${user}`, SMALL);
  expect(users.filter((user) => counters.take(`late ${user}`, SMALL))).toEqual([]);
  expect(counters.take('long', { requests: 5, per: 'day' })).toBe(false);
});

test('where all are at their limits, the last one that came goes', () => {
  const counters = new Counters(2);
  for (const user of ['ann', 'bob', 'eve']) counters.useUp(user, SMALL);
  expect(['ann', 'bob', 'eve'].map((user) => counters.remaining(user, SMALL))).toEqual([0, 5, 0]);
});

test("a key that is peeked or denied displaces no other", () => {
  const counters = new Counters(1);
  counters.take('ann', SMALL);
  counters.remaining('bob', SMALL);
  expect(counters.take('bob', SMALL, 6)).toBe(false);
  expect(counters.remaining('ann', SMALL)).toBe(4);
});
