import { describe, expect, test } from 'vitest';

import { checkBodyOf } from '../src/descriptor.js';
import { LocalLimiter, localCharges, type LocalCharge } from '../src/fallback.js';
import { checkedLimits } from '../src/limit-numbers.js';
import { parseLimits, perOf, titlesOf, windowMs, type Limit } from '../src/limits.js';
import { local } from '../src/render.js';

const START = 1_700_000_000_000;

function charges(limits: string | Limit[], cost = 1, user = 'ann'): LocalCharge[] {
  return localCharges(checkBodyOf({ descriptor: { user }, limits, cost }), undefined);
}

/** Limits that count by two windows, however small they are. */
function windows(text: string): Limit[] {
  return parseLimits(text).map((limit) => ({ ...limit, algorithm: 'sliding_window' }));
}

function allowed(limiter: LocalLimiter, asked: LocalCharge[], now: number): boolean {
  return limiter.charge(asked, now).every((verdict) => verdict.allowed);
}

/** Numbers that look random and are the same in each run. */
function* numbers(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

test('a window lets as many pass as it says', () => {
  const limiter = new LocalLimiter();
  const passed = Array.from({ length: 10 }, () => allowed(limiter, charges('3/minute'), START));
  expect(passed.filter(Boolean)).toHaveLength(3);
});

const EVERY: readonly Limit[] = (
  ['fixed_window', 'sliding_window', 'sub_windows', 'sliding_log', 'token_bucket', 'gcra', 'leaky_bucket'] as const
).map((algorithm) => ({ requests: 10, per: '30s', algorithm, ...(algorithm === 'leaky_bucket' ? { burst: 6 } : {}) }));

test.each(EVERY)('what is denied is allowed exactly at retry_after: $algorithm', (limit) => {
  const random = numbers(7);
  const limiter = new LocalLimiter();
  let now = START;
  let denials = 0;
  while (denials < 200) {
    const cost = 1 + Math.floor((random.next().value as number) * 4);
    const asked = charges([limit], cost);
    const [verdict] = limiter.charge(asked, now);
    if (verdict?.allowed === false) {
      denials += 1;
      const wait = verdict.retryAfterMs as number;
      const before = limiter.charge(charges([limit], cost), now + wait - 1)[0];
      expect(before?.allowed, `after ${wait - 1} of ${wait} ms`).toBe(false);
      expect(allowed(limiter, asked, now + wait)).toBe(true);
      now += wait;
    }
    now += Math.floor((random.next().value as number) * 2_000);
  }
});

test.each([10, 20])('a client that never pauses gets what a limit of %d allows on average, and hardly less', (requests) => {
  const limiter = new LocalLimiter();
  const passed: number[] = [];
  for (let now = START; now < START + 3_600_000; now += 500) {
    if (allowed(limiter, charges(`${requests}/minute`), now)) passed.push(now);
  }
  expect(passed.length).toBeLessThanOrEqual(requests * 61);
  expect(passed.length).toBeGreaterThanOrEqual(0.9 * requests * 60);
});

test('a limit of up to 10 requests is exact: it passes again a window after it did, and no sooner', () => {
  for (const [limits, window] of [['1/10s', 10_000], ['1/hour', 3_600_000]] as const) {
    const limiter = new LocalLimiter();
    for (let turn = 0; turn < 5; turn += 1) {
      const now = START + 1_234 + turn * window;
      expect(allowed(limiter, charges(limits), now)).toBe(true);
      expect(limiter.charge(charges(limits), now)[0]).toMatchObject({ allowed: false, retryAfterMs: window });
      expect(allowed(limiter, charges(limits), now + window - 1)).toBe(false);
    }
  }
});

test('a burst is a bucket: it passes at once, and then the rate', () => {
  const limiter = new LocalLimiter();
  const asked = charges([{ requests: 60, per: 'minute', burst: 3 }]);
  const passed = (now: number): number => Array.from({ length: 9 }, () => allowed(limiter, asked, now)).filter(Boolean).length;
  expect([passed(START), passed(START), passed(START + 1_000), passed(START + 3_000)]).toEqual([3, 0, 1, 2]);
});

test('a limit is identified by its numbers, or by its name', () => {
  const limiter = new LocalLimiter();
  for (let times = 0; times < 5; times += 1) expect(allowed(limiter, charges('5/minute'), START)).toBe(true);
  expect(allowed(limiter, charges('5/60s'), START)).toBe(false);
  expect(allowed(limiter, charges('6/minute'), START)).toBe(true);
  expect(allowed(limiter, charges([{ requests: 5, per: 'minute', burst: 4 }]), START)).toBe(true);
  // One with a name keeps its counter when its numbers change.
  const named = (requests: number): LocalCharge[] => charges([{ requests, per: 'minute', name: 'steady' }]);
  expect(allowed(limiter, named(5), START)).toBe(true);
  expect(limiter.charge(named(6), START)[0]?.remaining).toBe(4);
  // Above 10 it counts by another algorithm, and neither count makes the other forgotten.
  expect(limiter.charge(named(11), START)[0]?.remaining).toBe(10);
  expect(limiter.charge(named(6), START)[0]?.remaining).toBe(3);
});

test('a request takes from all of its limits or from none', () => {
  const limiter = new LocalLimiter();
  for (let times = 0; times < 2; times += 1) expect(allowed(limiter, charges('2/minute;3/hour'), START)).toBe(true);
  for (let times = 0; times < 5; times += 1) expect(allowed(limiter, charges('2/minute;3/hour'), START)).toBe(false);
  expect(limiter.charge(charges('3/hour', 0), START)[0]?.remaining).toBe(1);
});

test('two descriptors that are the same share one counter', () => {
  const limiter = new LocalLimiter();
  const twice = localCharges(checkBodyOf({ descriptors: [{ user: 'ann' }, { user: 'ann' }], limits: '3/minute' }), undefined);
  expect(allowed(limiter, twice, START)).toBe(true);
  expect(allowed(limiter, twice, START)).toBe(false);
});

test('clients do not share', () => {
  const limiter = new LocalLimiter();
  expect(allowed(limiter, charges('1/minute', 1, 'ann'), START)).toBe(true);
  expect(allowed(limiter, charges('1/minute', 1, 'bob'), START)).toBe(true);
  expect(allowed(limiter, charges('1/minute', 1, 'ann'), START)).toBe(false);
});

test('a cost above the limit never passes, and cost 0 only looks', () => {
  const limiter = new LocalLimiter();
  expect(limiter.charge(charges('3/minute', 4), START)[0]).toMatchObject({ allowed: false, retryAfterMs: null });
  expect(limiter.charge(charges('0/minute'), START)[0]).toMatchObject({ allowed: false, retryAfterMs: null });
  expect(limiter.charge(charges('3/minute', 0), START)[0]).toMatchObject({ allowed: true, remaining: 3, resetAfterMs: 0 });
});

test.each(['1/minute', '20/minute'])('time that steps back lets one more limit pass at most, and locks nobody out for longer than a window: %s', (limits) => {
  const limiter = new LocalLimiter();
  const most = parseLimits(limits)[0]?.requests ?? 0;
  const passed = (now: number): number => Array.from({ length: 50 }, () => allowed(limiter, charges(limits), now)).filter(Boolean).length;
  expect(passed(START)).toBe(most);
  expect(passed(START - 3_600_000)).toBeLessThanOrEqual(most);
  expect(passed(START - 3_600_000 + 120_000)).toBe(most);
});

test('what is settled changes what was taken, and not the part with a cost of its own', () => {
  const limiter = new LocalLimiter();
  const asked = localCharges(
    checkBodyOf({ descriptors: [{ tokens: 'ann' }, { entries: [{ key: 'requests', value: 'ann' }], cost: 1 }], limits: '10/minute', cost: 6 }),
    undefined,
  );
  const taken = limiter.charge(asked, START);
  limiter.adjust(taken, 2 - 6, START);
  expect(limiter.charge(asked.map((one) => ({ ...one, cost: 0 })), START).map(({ remaining }) => remaining)).toEqual([8, 9]);
  limiter.adjust(taken, 20, START);
  expect(limiter.charge(asked.map((one) => ({ ...one, cost: 0 })), START).map(({ remaining }) => remaining)).toEqual([0, 9]);
});

test('what is settled after a turn of the window is not given back to the new one', () => {
  const minute = 60_000;
  const begin = Math.ceil(START / minute) * minute;
  const left = (limiter: LocalLimiter, at: number): number | undefined => limiter.charge(charges(windows('10/minute'), 0), at)[0]?.remaining;

  const next = new LocalLimiter();
  const taken = next.charge(charges(windows('10/minute'), 8), begin);
  next.charge(charges(windows('10/minute'), 2), begin + minute + minute / 2);
  // Half of the 8 still weighs, and then half of the 2 that it did cost.
  expect(left(next, begin + minute + minute / 2)).toBe(4);
  next.adjust(taken, 2 - 8, begin + minute + minute / 2);
  expect(left(next, begin + minute + minute / 2)).toBe(7);

  const later = new LocalLimiter();
  const forgotten = later.charge(charges(windows('10/minute'), 8), begin);
  later.charge(charges(windows('10/minute'), 7), begin + 2 * minute);
  later.adjust(forgotten, 2 - 8, begin + 2 * minute);
  expect(left(later, begin + 2 * minute)).toBe(3);
  // What it took besides is taken now.
  later.adjust(forgotten, 10 - 8, begin + 2 * minute);
  expect(left(later, begin + 2 * minute)).toBe(1);
});

test('limits of the client stand in where a request has none', () => {
  const own = parseLimits('1/minute');
  expect(localCharges(checkBodyOf({ descriptor: { user: 'ann' } }), own).map(({ rule }) => rule)).toEqual(['local']);
  expect(localCharges(checkBodyOf({ descriptor: { user: 'ann' } }), undefined)).toEqual([]);
});

describe('what is rendered', () => {
  test('of a denial has the members and headers that the service writes', () => {
    const limiter = new LocalLimiter();
    const asked = charges('1/minute;9/hour');
    limiter.charge(asked, START);
    const decision = local(limiter.charge(asked, START), START);
    // Exactly a window after the first one passed.
    expect(decision.headers).toEqual({
      'ratelimit-policy': '"inline:minute";q=1;w=60, "inline:hour";q=9;w=3600',
      ratelimit: '"inline:minute";r=0;t=60, "inline:hour";r=8;t=3600',
      'x-ratelimit-limit': '1',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '1700000060',
      'retry-after': String(decision.retryAfter),
    });
    expect(JSON.parse(decision.body.text)).toEqual(decision.body.json);
    expect(Object.keys(decision.body.json)).toEqual([
      'type', 'title', 'status', 'detail', 'violated-policies', 'retry_after', 'limit', 'window', 'scope',
      'allowed', 'decided_by', 'source', 'limits',
    ]);
    expect(decision).toMatchObject({
      allowed: false,
      status: 429,
      contentType: 'application/problem+json',
      source: 'local',
      decidedBy: { rule: 'inline', name: 'minute' },
      body: { json: { retry_after: decision.retryAfter, 'violated-policies': ['inline:minute'], limit: 1, window: 60, scope: 'inline' } },
    });
    expect(decision.body.json.detail).toBe(`limit minute of rule inline allows 1 per minute; retry in ${decision.retryAfter} seconds`);
  });

  /** Retry-After of each of many who are denied together, and how long they have to wait at least. */
  function denials(limits: string, now = START): { waits: (number | null)[]; least: number } {
    let least = 0;
    const waits = Array.from({ length: 200 }, (_, index) => {
      const asked = charges(limits, 1, `user-${index}`);
      const limiter = new LocalLimiter();
      limiter.charge(asked, now);
      const verdicts = limiter.charge(asked, now);
      least = verdicts[0]?.retryAfterMs ?? 0;
      return local(verdicts, now).retryAfter;
    });
    return { waits, least };
  }

  test.each<[string, number, number]>([
    ['1/minute', 60, 5],
    ['1/hour', 3_600, 5],
    ['1/40s', 40, 4],
    ['1/10s', 10, 1],
    ['1/8s', 8, 0],
    ['1/100ms', 1, 0],
  ])('of when to return is spread over at most a tenth and 5 s: %s', (limits, seconds, most) => {
    const { waits, least } = denials(limits);
    expect(Math.ceil(least / 1_000)).toBe(seconds);
    const expected = Array.from({ length: most + 1 }, (_, jitter) => seconds + jitter);
    expect([...new Set(waits)].sort((a, b) => Number(a) - Number(b))).toEqual(expected);
    // The same who are denied by the same are told the same, in every process.
    expect(denials(limits).waits).toEqual(waits);
  });

  test('of when to return is rounded up', () => {
    const { waits, least } = denials('1/7999ms');
    expect(least).toBe(7_999);
    expect(new Set(waits)).toEqual(new Set([8]));
  });

  test('of names is what a structured field can hold', () => {
    const limits = [{ requests: 1, per: 'minute', name: 'größer: "a"#2' }];
    const asked = localCharges(checkBodyOf({ descriptors: [{ a: '1' }, { b: '1' }], limits }), undefined);
    const decision = local(new LocalLimiter().charge(asked, START), START);
    expect(decision.headers['ratelimit-policy']).toBe(
      '"inline:gr%C3%B6%C3%9Fer%3A %22a%22%232";q=1;w=60, "inline:gr%C3%B6%C3%9Fer%3A %22a%22%232#2";q=1;w=60',
    );
  });

  test('of nothing known is only that it passes', () => {
    expect(local([], START)).toMatchObject({ allowed: true, headers: {}, limits: [], decidedBy: null });
  });
});

test.each([
  [1_000, 'second'], [60_000, 'minute'], [3_600_000, 'hour'], [86_400_000, 'day'], [604_800_000, 'week'],
  [90_000, '90s'], [900_000, '15m'], [7_200_000, '2h'], [250, '250ms'], [1_500, '1500ms'], [172_800_000, '2d'],
])('a window of %d ms is %s, and the other way round', (ms, per) => {
  expect(perOf(ms)).toBe(per);
  expect(windowMs(per)).toBe(ms);
});

test('durations add up, and invalid ones are refused', () => {
  expect(windowMs('1h30m')).toBe(5_400_000);
  for (const per of ['', 'fortnight', '5', '1.5h']) expect(() => windowMs(per)).toThrow('is not a valid window');
  for (const ms of [0, -1, 1.5, NaN, Infinity]) expect(() => perOf(ms)).toThrow('windowMs must be');
});

test.each<[string, string[]]>([
  ['1/15minutes', ['15m']],
  ['1/60s', ['minute']],
  ['1/2days', ['48h']],
  ['10/minute;200/hour', ['minute', 'hour']],
  ['10/minute;20/minute;200/hour', ['10/minute', '20/minute', 'hour']],
  ['10/minute;20/60s', ['10/minute', '20/minute']],
])('the limits of %s are called %j', (text, titles) => {
  expect(titlesOf(parseLimits(text))).toEqual(titles);
});

test.each<[Limit[], string[]]>([
  [[{ requests: 10, per: 'minute', burst: 5 }, { requests: 10, per: '60s' }], ['10/minute token_bucket burst 5', '10/minute default']],
  [[{ requests: 10, per: 'minute', algorithm: 'gcra' }, { requests: 10, per: 'minute', algorithm: 'leaky_bucket', burst: 2 }], ['10/minute token_bucket', '10/minute leaky_bucket burst 2']],
  [[{ requests: 10, per: 'minute', burst: 5 }, { requests: 20, per: 'minute' }], ['10/minute', '20/minute']],
  [[{ requests: 10, per: 'minute', name: 'minute' }, { requests: 10, per: 'minute' }], ['minute', '10/minute']],
])('limits are called by as much as tells them apart, and are taken: %j', (limits, titles) => {
  expect(titlesOf(checkedLimits(limits))).toEqual(titles);
});

test.each<[Limit[], string]>([
  [[{ requests: 6, per: 'minute', burst: 6 }, { requests: 6, per: '60s', algorithm: 'gcra' }], 'limits[1] is the same limit as limits[0]'],
  [[{ requests: 5, per: 'minute' }, { requests: 5, per: 'minute', algorithm: 'sliding_log' }], 'limits[1] is the same limit as limits[0]'],
  [[{ requests: 5, per: 'minute', name: 'a' }, { requests: 9, per: 'hour', name: 'a' }], 'two limits of one list have the name "a"'],
])('one counter or name twice in a list is refused: %j', (limits, problem) => {
  expect(() => checkedLimits(limits)).toThrow(problem);
});

test('what is given back goes to the window of now first, then to the one before', () => {
  const limiter = new LocalLimiter();
  const left = (at: number): number | undefined => limiter.charge(charges(windows('5/minute'), 0), at)[0]?.remaining;
  const begins = Math.ceil(START / 60_000) * 60_000;
  limiter.charge(charges(windows('5/minute'), 4), begins - 60_000);
  // The next window begins, and the one before counts in full.
  limiter.charge(charges(windows('5/minute')), begins);
  limiter.giveBack(charges(windows('5/minute'), 3), begins);
  expect(left(begins)).toBe(3);
  limiter.giveBack(charges(windows('5/minute'), 100), begins);
  expect(left(begins)).toBe(5);
});

test('giving back to an unknown key displaces no other', () => {
  const limiter = new LocalLimiter({ maxKeys: 1 });
  limiter.charge(charges('5/minute', 5), START);
  limiter.giveBack(charges('5/minute', 1, 'bob'), START);
  limiter.adjust(new LocalLimiter().charge(charges('5/minute', 1, 'bob'), START), -1, START);
  expect(limiter.charge(charges('5/minute', 0), START)[0]?.remaining).toBe(0);
});
