/** What can be done to a client by its key, against the real service. */
import express from 'express';
import { describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import type { ClientOptions } from '../src/client-options.js';
import { RefusedError, UnavailableError } from '../src/errors.js';
import { rateLimit, type RateLimitOptions, type RateLimitRequestHandler } from '../src/express.js';
import { Limiter } from '../src/limiter.js';
import type { LimiterOptions } from '../src/limiter-options.js';
import { Running } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { serviceForAll } from './support/service.js';
import { NOWHERE } from './support/stub.js';
import { Told, until } from './support/until.js';

const service = serviceForAll();
const open = closedAfterEach();
let told: Told;

function clientOf(url: string, options: ClientOptions = {}): Tidegate {
  told = new Told();
  const client = new Tidegate({ url, logger: told, deadlineMs: 20_000, ...options });
  open.push(client);
  return client;
}

/** Without a framework, and by the client's address. */
function plainLimiterOf(options: LimiterOptions): Limiter {
  return new Limiter({ client: clientOf(service.url), logger: told, ...options });
}

function limiterOf(options: RateLimitOptions, url = service.url, ofClient: ClientOptions = {}): RateLimitRequestHandler {
  const client = clientOf(url, ofClient);
  return rateLimit({ client, logger: told, keyGenerator: (req) => req.get('x-user'), ...options });
}

async function appOf(
  limiter: RateLimitRequestHandler,
  ...paths: [string, ...string[]]
): Promise<(user: string, path?: string) => Promise<number>> {
  const app = express();
  for (const path of paths) app.get(path, limiter, (_, res) => void res.send('hello'));
  const running = await Running.start(app);
  open.push(running);
  return async (user, path = paths[0]) => (await fetch(new URL(path, running.url), { headers: { 'x-user': user } })).status;
}

describe('a key', () => {
  test('has a state, and has all of its limits back when it is reset', async () => {
    const limiter = limiterOf({ limits: '2/hour;5/day', name: 'by-key' });
    const ask = await appOf(limiter, '/search');
    expect(await limiter.getKey('ann')).toBeUndefined();
    expect([await ask('ann'), await ask('ann'), await ask('ann'), await ask('bob')]).toEqual([200, 200, 429, 200]);
    const known = await limiter.getKey('ann');
    expect(known?.totalHits).toBe(2);
    expect(known?.resetTime?.getTime()).toBeGreaterThan(Date.now());
    expect(await limiter.getKey('ann')).toMatchObject({ totalHits: 2 });
    await limiter.resetKey('ann');
    expect(await limiter.getKey('ann')).toBeUndefined();
    expect(await limiter.getKey('bob')).toMatchObject({ totalHits: 1 });
    expect([await ask('ann'), await ask('ann'), await ask('ann')]).toEqual([200, 200, 429]);
  });

  test('has one counter on all routes, and has a state before the first request', async () => {
    const limiter = limiterOf({ windowMs: 3_600_000, limit: 2, name: 'all-routes' });
    const ask = await appOf(limiter, '/one', '/two');
    expect(await limiter.getKey('dan')).toBeUndefined();
    expect([await ask('dan', '/one'), await ask('dan', '/two'), await ask('dan', '/two')]).toEqual([200, 200, 429]);
    expect(await limiter.getKey('dan')).toMatchObject({ totalHits: 2 });
    await limiter.resetKey('dan');
    expect(await limiter.getKey('dan')).toBeUndefined();
    expect([await ask('dan', '/two'), await ask('dan', '/one'), await ask('dan', '/one')]).toEqual([200, 200, 429]);
  });

  test('has a counter for each template, where a framework knows them and the limiter has no name', async () => {
    const limiter = plainLimiterOf({ limits: '3/hour;5/day' });
    const ask = (template?: string): Promise<unknown> =>
      limiter.decide({ method: 'GET', path: '/7', peer: '192.0.2.9', headers: {}, ...(template === undefined ? {} : { template }) });
    await ask('GET /:id');
    await ask('GET /:id');
    await ask();
    const left = async (template?: string): Promise<number[]> => (await limiter.getKey('192.0.2.9', template)).limits.map(({ remaining }) => remaining);
    expect([await left('GET /:id'), await left()]).toEqual([[1, 3], [2, 4]]);
    await limiter.resetKey('192.0.2.9', 'GET /:id');
    expect([await left('GET /:id'), await left()]).toEqual([[3, 5], [2, 4]]);
  });

  test.each(['::ffff:192.0.2.7', '192.0.2.7'])('that is an address, %s, is what requests from it are counted under', async (address) => {
    const limiter = plainLimiterOf({ limits: '2/hour', name: `of ${address}` });
    await limiter.decide({ method: 'GET', path: '/', peer: '::ffff:192.0.2.7', headers: {} });
    expect((await limiter.getKey(address)).limits[0]?.remaining).toBe(1);
    await limiter.resetKey(address);
    expect((await limiter.getKey('192.0.2.7')).limits[0]?.remaining).toBe(2);
  });

  test.each([
    [{}, '2001:db8::/56'],
    [{ ipv6Prefix: 64 }, '2001:db8:0:1::/64'],
  ])('that is an address of version 6 is its network, with %o', async (options, network) => {
    const limiter = plainLimiterOf({ limits: '9/hour', name: `in ${network}`, ...options });
    await limiter.decide({ method: 'GET', path: '/', peer: '2001:db8:0:1::7', headers: {} });
    expect((await limiter.getKey('2001:DB8:0:1::99')).limits[0]?.remaining).toBe(8);
    expect((await limiter.getKey(network)).limits[0]?.remaining).toBe(8);
    await limiter.resetKey('2001:db8:0:1::8');
    expect((await limiter.getKey('2001:db8:0:1::7')).limits[0]?.remaining).toBe(9);
  });

  test('without keyGenerator is the address, in Express too', async () => {
    const limiter = rateLimit({ client: clientOf(service.url), logger: told, windowMs: 3_600_000, limit: 1, name: 'by-address' });
    const ask = await appOf(limiter, '/');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
    expect(await limiter.getKey('::ffff:127.0.0.1')).toMatchObject({ totalHits: 1 });
    await limiter.resetKey('::ffff:127.0.0.1');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
  });

  test('of what only a request can tell is refused', async () => {
    for (const options of [{ limit: () => 5, name: 'r' }, { descriptors: [{ user: 'ann' }] }] satisfies RateLimitOptions[]) {
      await expect(limiterOf(options).getKey('ann')).rejects.toThrow('client.refund');
      await expect(limiterOf(options).resetKey('ann')).rejects.toThrow('client.refund');
    }
    await expect(limiterOf({ limit: 5, name: 'r' }).resetKey('')).rejects.toThrow('a key must be a non-empty string');
  });

  test('is reset in this process alone while the service is away, and that is an error', async () => {
    const limiter = limiterOf({ limits: '1/year', name: 'r' }, NOWHERE);
    const ask = await appOf(limiter, '/');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
    expect(await limiter.getKey('ann')).toMatchObject({ totalHits: 1 });
    await expect(limiter.resetKey('ann')).rejects.toThrow('the service cannot be reached');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
  });

  test.each<[string, () => RateLimitRequestHandler]>([
    ['is a mistake', () => limiterOf({ limit: () => 5 })],
    ['finds no service', () => limiterOf({ limit: 5, name: 'r' }, NOWHERE)],
  ])('whose reset %s and is not awaited is logged, and ends no process', async (_, make) => {
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', note);
    try {
      void make().resetKey('ann');
      await until('it is over', () => unhandled.length > 0 || told.lines.some((line) => line.includes('a key was not reset')));
      // Node tells of rejections when all that was due is done.
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off('unhandledRejection', note);
    }
    expect(unhandled).toEqual([]);
  });

  test('is reset in this process by the fallback of the middleware', async () => {
    const limiter = limiterOf({ limits: '1/year', name: 'r', fallback: 'local' }, NOWHERE, { fallback: 'allow' });
    const ask = await appOf(limiter, '/');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
    await expect(limiter.resetKey('ann')).rejects.toThrow(UnavailableError);
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
  });

  test('that the service refuses is reset in this process, and that is an error', async () => {
    const limiter = limiterOf({ limits: '1/year', name: 'r', domain: 'shop' });
    const ask = await appOf(limiter, '/');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
    await expect(limiter.resetKey('ann')).rejects.toThrow(RefusedError);
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
  });

  test.each(['allow', 'deny'] as const)('is not known while the service is away and the fallback is %s', async (fallback) => {
    const limiter = limiterOf({ limits: '1/year', name: 'r', fallback }, NOWHERE);
    await expect(limiter.getKey('ann')).rejects.toThrow(UnavailableError);
  });
});
