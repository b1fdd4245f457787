/** The client, against servers that behave as the service does on its worst days. */
import { beforeEach, describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import type { ClientOptions } from '../src/client-options.js';
import { RefusedError, TidegateError } from '../src/errors.js';
import { closedAfterEach } from './support/open.js';
import { denying, NOWHERE, passing, Stub, type Answering } from './support/stub.js';
import { Told, until } from './support/until.js';

const ann = { descriptor: { user: 'ann' }, limits: '2/minute' };
const open = closedAfterEach();
let told: Told;

beforeEach(() => {
  told = new Told();
});

async function stubbed(answer: Answering): Promise<Stub> {
  const stub = await Stub.start(answer);
  open.push(stub);
  return stub;
}

function clientOf(url: string, options: ClientOptions = {}): Tidegate {
  const client = new Tidegate({ url, logger: told, deadlineMs: 20_000, ...options });
  open.push(client);
  return client;
}

describe('a service that answers', () => {
  test('gets the domain, the descriptors, the limits and the cost', async () => {
    const stub = await stubbed(passing());
    const client = clientOf(stub.url, { token: 'secret' });
    const decision = await client.check({ ...ann, cost: 2 });
    expect(stub.asked[0]?.path).toBe('/v1/check');
    expect(stub.asked[0]?.headers).toMatchObject({ 'content-type': 'application/json', authorization: 'Bearer secret' });
    expect(stub.asked[0]?.headers.accept).toContain('application/problem+json');
    expect(JSON.parse(stub.asked[0]?.body ?? '')).toEqual({
      domain: 'apps',
      descriptors: [{ entries: [{ key: 'user', value: 'ann' }], limits: [{ requests: 2, per: 'minute' }] }],
      cost: 2,
    });
    expect(decision).toMatchObject({ allowed: true, status: 200, source: 'memory', retryAfter: null, contentType: 'application/json' });
    expect(decision.limits[0]?.remaining).toBe(9);
  });

  test('may be below a path', async () => {
    const stub = await stubbed(passing());
    await clientOf(`${stub.url}/limits/`).check(ann);
    expect(stub.asked[0]?.path).toBe('/limits/v1/check');
  });

  test('is called over one keep-alive connection', async () => {
    const stub = await stubbed(passing());
    const client = clientOf(stub.url);
    for (let times = 0; times < 20; times += 1) await client.check(ann);
    expect(stub.connections).toBe(1);
  });

  test('gets checks of the same moment as one batch', async () => {
    const stub = await stubbed(passing());
    const client = clientOf(stub.url);
    const decisions = await Promise.all(Array.from({ length: 100 }, () => client.check(ann)));
    expect(decisions.every(({ source }) => source === 'memory')).toBe(true);
    expect(stub.asked).toHaveLength(1);
    expect(JSON.parse(stub.asked[0]?.body ?? '')).toHaveLength(100);
  });

  test('denies with all that an app passes on', async () => {
    const stub = await stubbed(denying());
    const client = clientOf(stub.url);
    for (const decision of [await client.check(ann), ...(await Promise.all([client.check(ann), client.check(ann)]))]) {
      expect(decision).toMatchObject({ allowed: false, status: 429, retryAfter: 7, contentType: 'application/problem+json' });
      expect(decision.headers['retry-after']).toBe('7');
      expect(JSON.parse(decision.body.text)).toEqual(decision.body.json);
    }
  });

  test('passes on headers about limits only', async () => {
    const stub = await stubbed(async (asked) => {
      const reply = await passing()(asked);
      return typeof reply === 'string' ? reply : { ...reply, headers: { ...reply.headers, 'set-cookie': 'a=b', via: 'proxy', 'x-ratelimit': 'x' } };
    });
    const { headers } = await clientOf(stub.url).check(ann);
    expect(Object.keys(headers)).toEqual([
      'ratelimit-policy', 'ratelimit', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'x-ratelimit',
    ]);
  });

  test.each([400, 401, 403, 404, 415])('and refuses with %d, is right: that is an error and no decision', async (status) => {
    const stub = await stubbed(() => ({ status, body: '{"type":"about:blank","detail":"do it like this"}' }));
    const client = clientOf(stub.url);
    await expect(client.check(ann)).rejects.toEqual(new RefusedError(status, 'do it like this'));
    const both = await Promise.allSettled([client.check(ann), client.check(ann)]);
    for (const one of both) expect(one).toMatchObject({ status: 'rejected', reason: { status } });
  });
});

describe('invalid requests and options are errors without a call to the service', () => {
  const client = new Tidegate({ url: 'http://127.0.0.1:9' });
  test.each([
    [{}, 'either descriptor or descriptors'],
    [{ descriptor: { a: 'b' }, descriptors: [] }, 'either descriptor or descriptors'],
    [{ descriptor: { a: 'b' }, cost: -1 }, 'cost must be'],
    [{ descriptor: { a: 'b' }, cost: 0.5 }, 'cost must be'],
    [{ descriptor: { a: undefined as unknown as string } }, 'must be a string'],
    [{ descriptor: { a: 'b' }, limits: 'many' }, 'is not a valid list of limits'],
  ])('%j', async (request, message) => {
    await expect(client.check(request)).rejects.toThrow(message);
  });

  test.each([
    [{ url: 'localhost:8080' }, 'url must be like'],
    [{ token: 'two\nlines' }, 'token must be'],
    [{ deadlineMs: 0 }, 'deadlineMs must be'],
    [{ deadlineMs: Infinity }, 'deadlineMs must be'],
    [{ fallback: 'open' as 'allow' }, 'fallback must be'],
    [{ localLimits: '5' }, 'is not a valid list of limits'],
  ])('%j', (options, message) => {
    expect(() => new Tidegate(options)).toThrow(message);
    expect(() => new Tidegate(options)).toThrow(TidegateError);
  });
});

describe('without a service', () => {
  const days: [string, Answering, ClientOptions][] = [
    ['slow', () => 'hang', { deadlineMs: 50 }],
    ['that hangs up', () => 'drop', {}],
    ['that fails', () => ({ status: 500, body: 'oh no' }), {}],
    ['that has no rules', () => ({ status: 503, body: '{"detail":"no rules"}' }), {}],
    ['that is something else', () => ({ status: 200, body: '<html>' }), {}],
    ['that says nonsense', () => ({ status: 200, body: '{"allowed":"perhaps"}' }), {}],
    ['that is a gateway with limits of its own', () => ({ status: 429, body: 'slow down' }), {}],
    ['that is elsewhere', () => ({ status: 302, headers: { location: '/' }, body: '' }), {}],
  ];

  test.each(days)('one %s, the fallback decides', async (_, answer, options) => {
    const { url } = await stubbed(answer);
    const client = clientOf(url, options);
    const passed = [];
    for (let times = 0; times < 3; times += 1) passed.push(await client.check(ann));
    expect(passed.map(({ allowed, source }) => [allowed, source])).toEqual([[true, 'local'], [true, 'local'], [false, 'local']]);
    expect(await clientOf(url, { ...options, fallback: 'allow' }).check(ann)).toMatchObject({ allowed: true, source: 'allow', headers: {} });
    expect(await clientOf(url, { ...options, fallback: 'deny' }).check(ann)).toMatchObject({
      allowed: false,
      status: 429,
      source: 'deny',
      retryAfter: 1,
      headers: { 'retry-after': '1' },
      body: { json: { title: 'Quota Exceeded', status: 429, limits: [], 'violated-policies': [] } },
    });
  });

  test('refused connections too, and a check may set its own fallback', async () => {
    const client = clientOf(NOWHERE);
    expect(await client.check(ann)).toMatchObject({ allowed: true, source: 'local' });
    expect(await client.check(ann, { fallback: 'deny' })).toMatchObject({ allowed: false, source: 'deny' });
    expect(told.lines).toHaveLength(1);
    expect(told.lines[0]).toContain('cannot be reached');
  });

  test('limits of the client count where the request has none; with neither it passes', async () => {
        const rules = { domain: 'shop', descriptor: { user: 'ann' } };
    const limited = clientOf(NOWHERE, { localLimits: '1/minute' });
    expect((await limited.check(rules)).allowed).toBe(true);
    expect(await limited.check(rules)).toMatchObject({ allowed: false, decidedBy: { rule: 'local', name: 'minute' } });
    const unlimited = clientOf(NOWHERE);
    for (let times = 0; times < 5; times += 1) expect((await unlimited.check(rules)).allowed).toBe(true);
  });

  test('a batch that cannot be sent is decided check by check', async () => {
    const client = clientOf(NOWHERE);
    const decisions = await Promise.all(Array.from({ length: 10 }, () => client.check(ann)));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(2);
  });

  test('many checks of a dead service try it once, and the others do not wait', async () => {
    const stub = await stubbed(() => 'hang');
    const client = clientOf(stub.url, { deadlineMs: 300 });
    await client.check(ann);
    const asked = stub.asked.length;
    // In the time that one would take to time out, hundreds are decided.
    const decisions = [];
    for (let times = 0; times < 500; times += 1) decisions.push(client.check(ann));
    await Promise.all(decisions);
    expect(stub.asked.length - asked).toBeLessThanOrEqual(1);
  });

  test('a closed client decides by itself', async () => {
    const stub = await stubbed(passing());
    const client = clientOf(stub.url);
    client.close();
    expect(await client.check(ann)).toMatchObject({ source: 'local' });
    expect(stub.asked).toHaveLength(0);
  });
});

describe('a service that comes back', () => {
  test('is used again, and both events are logged once', async () => {
    const stub = await stubbed(() => 'drop');
    const client = clientOf(stub.url);
    expect((await client.check(ann)).source).toBe('local');
    stub.answer = passing();
    await until('the service decides', async () => (await client.check(ann)).source === 'memory');
    expect(told.lines).toHaveLength(2);
    expect(told.lines[1]).toContain('responds again');
  });

  test('between two checks, is not missed: a kept connection that was closed is opened anew', async () => {
    const stub = await stubbed(passing());
    const client = clientOf(stub.url);
    expect((await client.check(ann)).source).toBe('memory');
    // Closes the kept connection as the next request arrives on it, once.
    let dropped = false;
    stub.answer = (asked) => {
      if (dropped) return passing()(asked);
      dropped = true;
      return 'drop';
    };
    expect((await client.check(ann)).source).toBe('memory');
    expect(stub.connections).toBe(2);
  });
});
