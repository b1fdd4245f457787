/** Without a service: counting in this process alone, and not at all. */
import { beforeEach, describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { rateLimit, type RateLimitOptions } from '../src/express.js';
import { Limiter } from '../src/limiter.js';
import { withPermit } from '../src/permit.js';
import { withReservation } from '../src/reservation.js';
import { resetScopes } from '../src/scope.js';
import { resetWarnings } from '../src/warnings.js';
import { MAJORS, Running } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { Told } from './support/until.js';

const open = closedAfterEach();
let told: Told;

beforeEach(() => {
  resetWarnings();
  resetScopes();
  told = new Told();
});

describe('Tidegate.local', () => {
  test('counts in a time of its own', async () => {
    let now = 1_700_000_000_000;
    const client = Tidegate.local({ now: () => now, logger: told });
    const request = { descriptor: { user: 'ann' }, limits: '2/minute' };
    const decisions = [await client.check(request), await client.check(request), await client.check(request)];
    expect(decisions.map(({ allowed, source }) => [allowed, source])).toEqual([[true, 'local'], [true, 'local'], [false, 'local']]);
    expect(decisions[2]).toMatchObject({ status: 429, limits: [{ rule: 'inline', name: 'minute', retry_after_ms: 60_000 }] });
    now += 60_000;
    expect((await client.check(request)).allowed).toBe(true);
    expect(told.lines).toEqual([]);
  });

  test('begins anew when it is reset', async () => {
    const client = Tidegate.local();
    const request = { descriptor: { user: 'ann' }, limits: '1/hour' };
    expect([(await client.check(request)).allowed, (await client.check(request)).allowed]).toEqual([true, false]);
    client.reset();
    expect((await client.check(request)).allowed).toBe(true);
  });

  test('refunds, reserves and settles, and grants every permit', async () => {
    const client = Tidegate.local();
    const request = { descriptor: { user: 'ann' }, limits: '1000/hour' };
    await client.check({ ...request, cost: 400 });
    expect(await client.refund({ ...request, cost: 100 })).toMatchObject([{ limit: 1_000, remaining: 700 }]);
    await withReservation(client, { ...request, cost: 600 }, (reservation) => reservation.settle(200));
    expect((await client.check({ ...request, cost: 0 })).limits[0]?.remaining).toBe(500);
    expect(await withPermit(client, { descriptor: { export: 'ann' } }, () => 'done')).toBe('done');
  });

  test('refuses limits that the service would refuse', async () => {
    const client = Tidegate.local();
    const check = client.check({ descriptor: { user: 'ann' }, limits: [{ requests: 1, per: 'minute', algorithm: 'leaky' as 'gcra' }] });
    await expect(check).rejects.toThrow('algorithm must be one of');
  });

  test('has limits of its own where rules of a service would apply', async () => {
    const client = Tidegate.local({ localLimits: '1/minute' });
    const limiter = new Limiter({ client, domain: 'shop', descriptors: [{ user: 'ann' }] });
    const request = { method: 'GET', path: '/', peer: '192.0.2.1', headers: {} };
    expect([(await limiter.decide(request)).kind, (await limiter.decide(request)).kind]).toEqual(['pass', 'deny']);
  });
});

describe.each(MAJORS)('%s', (_, make) => {
  async function serve(options: RateLimitOptions, answer: (req: import('express').Request) => unknown = () => 'hello'): Promise<Running> {
    const app = make();
    app.use(rateLimit({ logger: told, ...options }));
    app.use(async (req, res) => void res.send(await answer(req)));
    const running = await Running.start(app);
    open.push(running);
    return running;
  }

  test('a limiter counts in the process, is reset, by key too, and warns of nothing', async () => {
    const client = Tidegate.local({ logger: told });
    const limiter = rateLimit({ client, logger: told, limit: 1 });
    const app = make();
    app.use(limiter, (_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    const ask = async (): Promise<number> => (await running.get('/')).status;
    expect([await ask(), await ask()]).toEqual([200, 429]);
    expect(await limiter.getKey('127.0.0.1')).toMatchObject({ totalHits: 1 });
    await limiter.resetKey('127.0.0.1');
    expect(await limiter.getKey('127.0.0.1')).toBeUndefined();
    expect([await ask(), await ask()]).toEqual([200, 429]);
    client.reset();
    expect([await ask(), await ask()]).toEqual([200, 429]);
    // As each test of an app makes it anew.
    for (let times = 0; times < 200; times += 1) rateLimit({ client: Tidegate.local({ logger: told }), logger: told, limit: 1 });
    expect(told.lines).toEqual([]);
  });

  test.each<[string, () => RateLimitOptions]>([
    ['enabled: false', () => ({ enabled: false })],
    ['a client with enabled: false', () => ({ client: new Tidegate({ enabled: false, logger: told }) })],
  ])('%s lets everything pass and asks for nothing', async (_name, options) => {
    const functions = { keyGenerator: () => { throw new Error('nobody asks'); }, limit: () => { throw new Error('nobody asks'); } };
    const app = await serve({ ...functions, reserve: true, ...options() }, async (req) => {
      await req.rateLimit?.settle(90);
      return `${req.rateLimit?.limit} ${req.rateLimit?.decision.source}`;
    });
    for (let times = 0; times < 8; times += 1) {
      const got = await app.get('/');
      expect([got.status, got.body, got.headers['ratelimit']]).toEqual([200, 'Infinity disabled', undefined]);
    }
    expect(told.lines).toEqual([]);
  });
});

test('enabled: true is as if it were not there', async () => {
  const limiter = new Limiter({ client: Tidegate.local(), enabled: true, limits: '1/minute' });
  const request = { method: 'GET', path: '/', peer: '192.0.2.1', headers: {} };
  expect([(await limiter.decide(request)).kind, (await limiter.decide(request)).kind]).toEqual(['pass', 'deny']);
});
