/** The package against the real service. A service that is too old fails these; none is skipped. */
import express from 'express';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { RateLimitExceeded, RefusedError } from '../src/errors.js';
import { rateLimit } from '../src/express.js';
import { withPermit } from '../src/permit.js';
import { withReservation } from '../src/reservation.js';
import { Running } from './support/app.js';
import { Service } from './support/service.js';
import { Told, until } from './support/until.js';

let service: Service;
let client: Tidegate;
let told: Told;
let users = 0;

beforeAll(async () => {
  service = await Service.start();
});
afterAll(() => service?.stop());

beforeEach(() => {
  told = new Told();
  client = new Tidegate({ url: service.url, logger: told, deadlineMs: 20_000 });
});
afterEach(() => client.close());

/** Somebody who has not asked for anything yet. */
const somebody = (): string => `user-${(users += 1)}`;

describe('limits in code', () => {
  test('count in the service', async () => {
    const request = { descriptor: { user: somebody() }, limits: '2/minute;100/hour' };
    const decisions = [await client.check(request), await client.check(request), await client.check(request)];
    expect(decisions.map(({ allowed, source }) => [allowed, source])).toEqual([[true, 'memory'], [true, 'memory'], [false, 'memory']]);
    expect(decisions[0]?.headers['ratelimit-policy']).toBe('"inline:minute";q=2;w=60, "inline:hour";q=100;w=3600');
    expect(decisions[2]).toMatchObject({ status: 429, decidedBy: { rule: 'inline', name: 'minute' } });
    expect(decisions[2]?.retryAfter).toBe(Number(decisions[2]?.headers['retry-after']));
  });

  test('a hundred at the same time are one batch, and exactly the limit passes', async () => {
    const request = { descriptor: { user: somebody() }, limits: '40/minute' };
    const decisions = await Promise.all(Array.from({ length: 100 }, () => client.check(request)));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(40);
    expect(decisions.every(({ source }) => source === 'memory')).toBe(true);
  });

  test('a batch answers each as it would be answered alone', async () => {
    const request = (user: string) => ({ descriptor: { user }, limits: '1/day' });
    const [one, two] = [somebody(), somebody()];
    await Promise.all([client.check(request(one)), client.check(request(two))]);
    const [batched] = await Promise.all([client.check(request(one)), client.check(request(two))]);
    const alone = await client.check(request(one));
    expect(Object.keys(batched.headers)).toEqual(Object.keys(alone.headers));
    // Times go on between the two.
    const still = (text: string): string => text.replace(/\d+/g, '#');
    expect(still(batched.body.text)).toBe(still(alone.body.text));
  });

  test('are refused where the domain does not allow them', async () => {
    const refused = client.check({ domain: 'shop', descriptor: { user: 'ann' }, limits: '1/minute' });
    await expect(refused).rejects.toMatchObject({ status: 403 });
    await expect(client.check({ domain: 'nowhere', descriptor: { user: 'ann' }, limits: '1/minute' })).rejects.toMatchObject({ status: 403 });
  });

  test('that are none are refused, and only they', async () => {
    const request = { descriptor: { user: somebody() }, limits: '2/minute' };
    const [good, bad] = await Promise.allSettled([
      client.check(request),
      client.check({ ...request, limits: [{ requests: 1, per: 'fortnight' }] }),
    ]);
    expect(good).toMatchObject({ status: 'fulfilled', value: { source: 'memory' } });
    expect(bad).toMatchObject({ status: 'rejected', reason: expect.any(RefusedError) as Error });
  });
});

test('rules of the service apply to requests without limits', async () => {
  const request = { domain: 'shop', descriptor: { user: somebody() } };
  const decisions = await Promise.all(Array.from({ length: 5 }, () => client.check(request)));
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3);
  expect(decisions[4]?.decidedBy).toEqual({ rule: 'user', name: 'minute' });
});

describe('permits', () => {
  test('are held by one at a time', async () => {
    const request = { domain: 'shop', descriptor: { export: somebody() } };
    const held = await client.acquire(request);
    expect(held.allowed).toBe(true);
    expect(await held.renew()).toBe(true);
    await expect(withPermit(client, request, () => 1)).rejects.toBeInstanceOf(RateLimitExceeded);
    await held.release();
    expect(await withPermit(client, request, () => 'done')).toBe('done');
    expect((await client.acquire(request)).allowed).toBe(true);
  });
});

describe('reservations', () => {
  const tokens = (user: string, cost: number) => ({ descriptor: { user }, limits: '1000/hour', cost });
  const left = async (user: string): Promise<number | undefined> => (await client.check(tokens(user, 0))).limits[0]?.remaining;

  test('give back what was not needed', async () => {
    const user = somebody();
    const reservation = await client.reserve(tokens(user, 400));
    expect(reservation).toMatchObject({ allowed: true, estimate: 400, id: expect.any(String) as string });
    expect(await left(user)).toBe(600);
    expect(await reservation.settle(100)).toMatchObject({ estimate: 400, cost: 100 });
    expect(await left(user)).toBe(900);
  });

  test('take what was needed besides', async () => {
    const user = somebody();
    await (await client.reserve(tokens(user, 400))).settle(700);
    expect(await left(user)).toBe(300);
  });

  test('are denied as checks are', async () => {
    const user = somebody();
    await client.reserve(tokens(user, 700));
    const denied = await client.reserve(tokens(user, 700));
    expect(denied).toMatchObject({ allowed: false, id: null, decision: { status: 429, contentType: 'application/problem+json' } });
    expect(denied.decision.headers['retry-after']).toBeDefined();
  });

  test('are settled once', async () => {
    const reservation = await client.reserve(tokens(somebody(), 10));
    await reservation.settle(1);
    // The client itself would not send it again.
    const fetched = await fetch(`${service.url}/v1/settle`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: reservation.id, cost: 1 }),
    });
    expect(fetched.status).toBe(410);
  });

  test('of work that fails cost nothing', async () => {
    const user = somebody();
    await expect(withReservation(client, tokens(user, 400), () => Promise.reject(new Error('oh no')))).rejects.toThrow('oh no');
    expect(await left(user)).toBe(1_000);
  });

  test('a budget is never overshot by many at once', async () => {
    const user = somebody();
    const results = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const reservation = await client.reserve(tokens(user, 100));
        if (reservation.allowed) await reservation.settle(100);
        return reservation.allowed;
      }),
    );
    expect(results.filter(Boolean)).toHaveLength(10);
  });
});

describe('a real app', () => {
  async function serve(options: Parameters<typeof rateLimit>[0]): Promise<Running> {
    const app = express();
    app.use(rateLimit({ client, logger: told, ...options }));
    app.use((req, res) => void res.status(req.path === '/fails' ? 500 : 200).send('hello'));
    return Running.start(app);
  }

  test('denies with the bytes of the service', async () => {
    const app = await serve({ windowMs: 60_000, limit: 2, name: somebody() });
    const got = [await app.get('/'), await app.get('/'), await app.get('/')];
    expect(got.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(got[2]?.headers['content-type']).toBe('application/problem+json');
    expect(JSON.parse(got[2]?.body ?? '')).toMatchObject({ source: 'memory', scope: 'inline', limit: 2, window: 60 });
    await app.close();
  });

  test.each<[string, string]>([
    ['with a line end', 'bob\n'],
    ['with half of a surrogate pair', 'bob\ud800'],
    ['of 70,000 bytes', 'b'.repeat(70_000)],
  ])('a key %s is limited like any other', async (_, key) => {
    for (const options of [{}, { passOnStoreError: true }, { passOnStoreError: true, reserve: true }]) {
      const app = await serve({ limit: 1, name: somebody(), keyGenerator: () => key, ...options });
      expect([(await app.get('/')).status, (await app.get('/')).status]).toEqual([200, 429]);
      await app.close();
      const named = await serve({ limit: 1, name: somebody() + key, ...options });
      expect([(await named.get('/')).status, (await named.get('/')).status]).toEqual([200, 429]);
      await named.close();
      const user = somebody() + key;
      const rules = await serve({ domain: 'shop', descriptors: [{ user }], ...options });
      const statuses: number[] = [];
      for (let times = 0; times < 4; times += 1) statuses.push((await rules.get('/')).status);
      expect(statuses).toEqual([200, 200, 200, 429]);
      await rules.close();
    }
    expect(told.lines).toEqual([]);
  });

  test('gives back what failed', async () => {
    const route = somebody();
    const app = await serve({ limit: 2, skipFailedRequests: true, name: route });
    const look = { descriptor: { route, client: '127.0.0.1' }, limits: '2/minute', cost: 0 };
    const left = async (): Promise<number | undefined> => (await client.check(look)).limits[0]?.remaining;
    for (let times = 0; times < 4; times += 1) {
      expect((await app.get('/fails')).status).toBe(500);
      // It is settled when the answer is out, which is a moment later.
      await until('it is given back', async () => (await left()) === 2);
    }
    expect((await app.get('/works')).status).toBe(200);
    expect(await left()).toBe(1);
    await app.close();
  });
});

describe('a service that goes and comes', () => {
  const request = { domain: 'shop', descriptor: { nobody: 'limits this' } };
  let mine: Service;
  let app: Tidegate;

  beforeEach(async () => {
    mine = await Service.start();
    app = new Tidegate({ url: mine.url, logger: told });
    await until('the service decides', async () => (await app.check(request)).source === 'memory');
  });
  // However a test ends, nothing is left of it.
  afterEach(async () => {
    app?.close();
    await mine?.stop();
  });

  test('killed and started again, it decides again', async () => {
    await mine.kill();
    for (let times = 0; times < 20; times += 1) expect((await app.check(request)).source).toBe('allow');
    await mine.restart();
    await until('the service decides', async () => (await app.check(request)).source === 'memory');
  });

  test('while it is paused no check waits longer than the deadline; when it resumes, it decides again', async () => {
    await mine.pause();
    const started = Date.now();
    const decisions = await Promise.all(Array.from({ length: 50 }, () => app.check(request)));
    for (let times = 0; times < 200; times += 1) decisions.push(await app.check(request));
    expect(decisions.every(({ source }) => source === 'allow')).toBe(true);
    // 250 ms for the first, and now and then for one that finds out; 200 of them would be 50 s.
    expect(Date.now() - started).toBeLessThan(20_000);
    mine.resume();
    await until('the service decides', async () => (await app.check(request)).source === 'memory');
  });
});
