/** What can be done to a client by its key, against the real service. */
import express from 'express';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { rateLimit, type RateLimitOptions, type RateLimitRequestHandler } from '../src/express.js';
import { Running } from './support/app.js';
import { NOWHERE } from './support/stub.js';
import { Service } from './support/service.js';
import { Told } from './support/until.js';

let service: Service;
const open: { close(): unknown }[] = [];

beforeAll(async () => {
  service = await Service.start();
});
afterAll(() => service?.stop());
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

function limiterOf(options: RateLimitOptions, url = service.url): RateLimitRequestHandler {
  const told = new Told();
  const client = new Tidegate({ url, logger: told, deadlineMs: 20_000 });
  open.push(client);
  return rateLimit({ client, logger: told, keyGenerator: (req) => req.get('x-user'), ...options });
}

async function appOf(limiter: RateLimitRequestHandler, path: string): Promise<(user: string) => Promise<number>> {
  const app = express();
  app.get(path, limiter, (_, res) => void res.send('hello'));
  const running = await Running.start(app);
  open.push(running);
  return async (user) => (await fetch(new URL(path, running.url), { headers: { 'x-user': user } })).status;
}

describe('a key', () => {
  test('is told of, and has all of its limits back when it is reset', async () => {
    const limiter = limiterOf({ limits: '2/hour;5/day', route: 'by-key' });
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

  test('has a counter for each route, which may be named', async () => {
    const limiter = limiterOf({ windowMs: 3_600_000, limit: 1 });
    const ask = await appOf(limiter, '/files');
    expect([await ask('cat'), await ask('cat')]).toEqual([200, 429]);
    await expect(limiter.getKey('cat')).rejects.toThrow('set the option route');
    await expect(limiter.resetKey('cat')).rejects.toThrow('set the option route');
    expect(await limiter.getKey('cat', 'GET /files')).toMatchObject({ totalHits: 1 });
    await limiter.resetKey('cat', 'GET /other');
    expect(await ask('cat')).toBe(429);
    await limiter.resetKey('cat', 'GET /files');
    expect(await ask('cat')).toBe(200);
  });

  test('of what only a request can tell is refused', async () => {
    for (const options of [{ limit: () => 5, route: 'r' }, { descriptors: [{ user: 'ann' }] }] satisfies RateLimitOptions[]) {
      await expect(limiterOf(options).getKey('ann')).rejects.toThrow('client.refund');
      await expect(limiterOf(options).resetKey('ann')).rejects.toThrow('client.refund');
    }
    await expect(limiterOf({ limit: 5, route: 'r' }).resetKey('')).rejects.toThrow('a key must be a text');
  });

  test('is reset in this process alone while the service is away, and that is an error', async () => {
    const limiter = limiterOf({ limits: '1/year', route: 'r' }, NOWHERE);
    const ask = await appOf(limiter, '/');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
    expect(await limiter.getKey('ann')).toMatchObject({ totalHits: 1 });
    await expect(limiter.resetKey('ann')).rejects.toThrow('the service cannot be reached');
    expect([await ask('ann'), await ask('ann')]).toEqual([200, 429]);
  });
});
