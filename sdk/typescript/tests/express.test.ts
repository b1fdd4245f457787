/** The middleware, under both majors of Express, behind a stub that answers as the service does. */
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { ErrorRequestHandler, Request } from 'express';

import { Tidegate } from '../src/client.js';
import { ipKeyGenerator, rateLimit, type RateLimitInfo, type RateLimitOptions } from '../src/express.js';
import { resetScopes } from '../src/scope.js';
import { resetWarnings } from '../src/warnings.js';
import { MAJORS, Running, type App } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { denying, NOWHERE, passing, Stub, type Answering } from './support/stub.js';
import { Told, until } from './support/until.js';

interface Body {
  readonly domain: string;
  readonly descriptors: readonly { entries: { key: string; value: string }[]; limits?: unknown }[];
  readonly cost: number;
}

const open = closedAfterEach();
let stub: Stub;
let told: Told;

beforeEach(async () => {
  resetWarnings();
  resetScopes();
  told = new Told();
  stub = await Stub.start(passing());
  open.push(stub);
});

function asked(index = 0): Body {
  return JSON.parse(stub.asked[index]?.body ?? 'null') as Body;
}

/** What was asked for, as `route` and `client`. */
function entries(index = 0): Record<string, string> {
  return Object.fromEntries((asked(index).descriptors[0]?.entries ?? []).map(({ key, value }) => [key, value]));
}

describe.each(MAJORS)('%s', (_, make) => {
  function limiter(options: RateLimitOptions = {}): ReturnType<typeof rateLimit> {
    const client = new Tidegate({ url: stub.url, logger: told, deadlineMs: 20_000 });
    open.push(client);
    return rateLimit({ client, logger: told, ...options });
  }

  async function serve(prepare: (app: App) => void): Promise<Running> {
    const app = make();
    prepare(app);
    const running = await Running.start(app);
    open.push(running);
    return running;
  }

  /** An app with the middleware before everything. */
  function limited(options: RateLimitOptions = {}, answer: (req: Request) => unknown = () => 'hello'): Promise<Running> {
    return serve((app) => {
      app.use(limiter(options));
      app.use((req, res) => void res.send(answer(req)));
    });
  }

  test('three lines are enough', async () => {
    const app = await limited({ windowMs: 60_000, limit: 100 });
    const got = await app.get('/some/path?query');
    expect([got.status, got.body]).toEqual([200, 'hello']);
    expect(asked()).toEqual({
      domain: 'apps',
      descriptors: [
        {
          entries: [{ key: 'route', value: 'limiter' }, { key: 'client', value: '127.0.0.1' }],
          limits: [{ requests: 100, per: 'minute' }],
        },
      ],
      cost: 1,
    });
  });

  test('the defaults are those of express-rate-limit', async () => {
    await (await limited()).get('/');
    expect(asked().descriptors[0]?.limits).toEqual([{ requests: 5, per: 'minute' }]);
  });

  test.each<[string, RateLimitOptions, unknown]>([
    ['max', { windowMs: 900_000, max: 7 }, [{ requests: 7, per: '15m' }]],
    ['a function', { limit: () => Promise.resolve(8) }, [{ requests: 8, per: 'minute' }]],
    ['a label', { limit: 9, identifier: 'gold' }, [{ requests: 9, per: 'minute' }]],
    ['a function as label', { limit: 9, identifier: (req) => req.method }, [{ requests: 9, per: 'minute' }]],
    ['two over one window', { limits: '10/minute;20/minute' }, [{ requests: 10, per: 'minute' }, { requests: 20, per: 'minute' }]],
    ['limits as text', { limits: '10/minute;200/hour' }, [{ requests: 10, per: 'minute' }, { requests: 200, per: 'hour' }]],
    ['limits as they are', { limits: [{ requests: 1, per: '9s', burst: 3 }] }, [{ requests: 1, per: '9s', burst: 3 }]],
    ['limits by request', { limits: (req) => (req.path === '/' ? '1/day' : '2/day') }, [{ requests: 1, per: 'day' }]],
  ])('limits: %s', async (_name, options, expected) => {
    await (await limited(options)).get('/');
    expect(asked().descriptors[0]?.limits).toEqual(expected);
  });

  test('the cost may depend on the request', async () => {
    const app = await limited({ cost: (req) => Number(req.query['pages'] ?? 1) });
    await app.get('/?pages=4');
    expect(asked().cost).toBe(4);
  });

  test('rules of the service apply to descriptors', async () => {
    const app = await limited({ domain: 'shop', descriptors: (req) => [{ user: req.get('x-user') ?? 'nobody' }] });
    await app.get('/', { headers: { 'x-user': 'ann' } });
    expect(asked()).toEqual({ domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }], cost: 1 });
  });

  test('a limiter counts by its name or by itself, whatever the path', async () => {
    const app = await serve((app) => {
      app.get('/users/:id', limiter({ limit: 7 }), (_req, res) => void res.send('user'));
      app.use('/tenants/:id', limiter({ limit: 8 }), (_req, res) => void res.send('tenant'));
      app.get('/named', limiter({ limit: 8, name: 'search' }), (_req, res) => void res.send('named'));
      app.get('/dynamic', limiter({ limit: () => 8 }), (_req, res) => void res.send('dynamic'));
    });
    for (const path of ['/users/7', '/users/8', '/tenants/a/b', '/TENANTS/c', '/named', '/dynamic']) expect((await app.get(path)).status).toBe(200);
    expect(stub.asked.map((_one, index) => entries(index)['route'])).toEqual([
      'limiter', 'limiter', 'limiter', 'limiter', 'search', 'limiter:dynamic',
    ]);
  });

  test('only trusted proxies determine the address of the client', async () => {
    const headers = { 'x-forwarded-for': '1.2.3.4, 2001:db8:1:2ff::9' };
    await (await limited()).get('/', { headers });
    await (await limited({ trustedProxies: ['127.0.0.1/32'] })).get('/', { headers });
    await (await limited({ trustedProxies: ['127.0.0.1/32'], ipv6Subnet: 64 })).get('/', { headers });
    await (await limited({ trustedProxies: ['127.0.0.1/32'], ipv6Subnet: false })).get('/', { headers });
    await (await limited({ trustedProxies: ['127.0.0.1/32'], header: 'forwarded' })).get('/', {
      headers: { ...headers, forwarded: 'for=198.51.100.7' },
    });
    expect([0, 1, 2, 3, 4].map((index) => entries(index)['client'])).toEqual([
      '127.0.0.1', '2001:db8:1:200::/56', '2001:db8:1:2ff::/64', '2001:db8:1:2ff::9', '198.51.100.7',
    ]);
  });

  test('a line of Forwarded with an open quote does not hide the next', async () => {
    const app = await limited({ trustedProxies: ['127.0.0.1/32'], header: 'forwarded' });
    // Node sends each element as a line of its own.
    const lines = ['for="1.2.3.4', 'for=198.51.100.7'];
    await app.get('/', { headers: { forwarded: lines as unknown as string } });
    expect(entries()['client']).toBe('198.51.100.7');
  });

  test('the app may return keys; clients without one are limited by address', async () => {
    const app = await limited({ keyGenerator: (req) => Promise.resolve(req.get('x-api-key')) });
    await app.get('/', { headers: { 'x-api-key': 'k1' } });
    await app.get('/');
    expect([entries(0)['client'], entries(1)['client']]).toEqual(['k1', '127.0.0.1']);
  });

  test('a key that is not a string is an error', async () => {
    const app = await serve((app) => {
      app.use(limiter({ keyGenerator: () => 7 as unknown as string }));
      const answer: ErrorRequestHandler = (error, _req, res, _next) => void res.status(500).send(String(error));
      app.use(answer);
    });
    const got = await app.get('/');
    expect([got.status, got.body]).toEqual([500, expect.stringContaining('must return a string')]);
  });

  test('a skipped request is not sent to the service', async () => {
    const app = await limited({ skip: (req) => req.path === '/health' });
    expect((await app.get('/health')).headers['ratelimit']).toBeUndefined();
    await app.get('/');
    expect(stub.asked).toHaveLength(1);
  });

  test('the state of the limit is on the request', async () => {
    let info: RateLimitInfo | undefined;
    const app = await limited({}, (req) => {
      info = req.rateLimit;
      return 'hello';
    });
    const before = Date.now();
    await app.get('/');
    expect(info).toMatchObject({ limit: 10, used: 1, remaining: 9, key: '127.0.0.1', decision: { allowed: true } });
    expect(info?.resetTime?.getTime()).toBeGreaterThanOrEqual(before + 60_000);
  });

  test('it may have another name', async () => {
    const app = await limited({ requestPropertyName: 'quota' }, (req) => String((req as unknown as { quota: RateLimitInfo }).quota.remaining));
    expect((await app.get('/')).body).toBe('9');
  });

  describe('headers', () => {
    const names = (headers: object): string[] => Object.keys(headers).filter((name) => name.includes('ratelimit')).sort();
    const legacy = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];

    test.each<[RateLimitOptions, Record<string, string>]>([
      [{}, { ratelimit: '"inline:minute";r=9;t=60', 'ratelimit-policy': '"inline:minute";q=10;w=60' }],
      [{ standardHeaders: 'draft-11' }, { ratelimit: '"inline:minute";r=9;t=60', 'ratelimit-policy': '"inline:minute";q=10;w=60' }],
      [{ standardHeaders: 'draft-8' }, { ratelimit: '"inline:minute";r=9;t=60', 'ratelimit-policy': '"inline:minute";q=10;w=60' }],
      [{ standardHeaders: 'draft-7' }, { ratelimit: 'limit=10, remaining=9, reset=60', 'ratelimit-policy': '10;w=60' }],
      [{ standardHeaders: 'draft-6' }, { 'ratelimit-limit': '10', 'ratelimit-policy': '10;w=60', 'ratelimit-remaining': '9', 'ratelimit-reset': '60' }],
      [{ standardHeaders: true }, { 'ratelimit-limit': '10', 'ratelimit-policy': '10;w=60', 'ratelimit-remaining': '9', 'ratelimit-reset': '60' }],
      [{ standardHeaders: false }, {}],
    ])('%j', async (options, expected) => {
      const { headers } = await (await limited({ ...options, legacyHeaders: false })).get('/');
      expect(names(headers)).toEqual(Object.keys(expected));
      expect(headers).toMatchObject(expected);
      const both = await (await limited(options)).get('/');
      expect(names(both.headers)).toEqual([...Object.keys(expected), ...legacy]);
    });

    test('that the app sets itself stay', async () => {
      const app = await serve((app) => {
        app.use((_req, res, next) => {
          res.setHeader('X-RateLimit-Limit', 'mine');
          next();
        });
        app.use(limiter());
        app.use((_req, res) => void res.set('RateLimit-Policy', 'mine too').send('hello'));
      });
      const { headers } = await app.get('/');
      expect(headers).toMatchObject({ 'x-ratelimit-limit': 'mine', 'ratelimit-policy': 'mine too', 'x-ratelimit-remaining': '9' });
    });

    test('of a second limit take the place of the first', async () => {
      let left = 9;
      stub.answer = (one) => passing(left--)(one);
      const app = await serve((app) => {
        app.use(limiter({ name: 'all' }));
        app.get('/', limiter(), (_req, res) => void res.send('hello'));
      });
      expect((await app.get('/')).headers).toMatchObject({ ratelimit: '"inline:minute";r=8;t=60', 'x-ratelimit-remaining': '8' });
    });
  });

  describe('a denial', () => {
    beforeEach(() => {
      stub.answer = denying();
    });

    test('is passed on as it is, and the app is not called', async () => {
      const called = vi.fn(() => 'hello');
      const app = await limited({}, called);
      const got = await app.get('/');
      expect(got.status).toBe(429);
      expect(got.headers).toMatchObject({
        'content-type': 'application/problem+json',
        'retry-after': '7',
        ratelimit: '"inline:minute";r=0;t=7',
        'x-ratelimit-reset': '1700000007',
      });
      expect(JSON.parse(got.body)).toMatchObject({ title: 'Quota Exceeded', retry_after: 7 });
      expect(called).not.toHaveBeenCalled();
    });

    test('of a HEAD has no body', async () => {
      const got = await (await limited()).get('/', { method: 'HEAD' });
      expect([got.status, got.body, got.headers['retry-after']]).toEqual([429, '', '7']);
    });

    test.each<[string, RateLimitOptions, number, unknown]>([
      ['a text', { message: 'slow down' }, 429, 'slow down'],
      ['an object', { message: { error: 'slow down' } }, 429, '{"error":"slow down"}'],
      ['a function', { message: (req: Request) => Promise.resolve(`not ${req.path}`) }, 429, 'not /'],
      ['a status', { message: 'go away', statusCode: 503 }, 503, 'go away'],
      ['a status alone', { statusCode: 403 }, 403, expect.stringContaining('"status":403')],
      ['onReject', { onReject: (decision) => ({ status: 420, body: `wait ${decision.retryAfter}` }) }, 420, 'wait 7'],
      ['onReject that leaves it', { onReject: () => undefined }, 429, expect.stringContaining('"status":429')],
      ['a handler', { handler: (req, res, _next, { statusCode }) => res.status(statusCode).send(`no ${req.rateLimit?.remaining}`) }, 429, 'no 0'],
      ['a handler that passes on', { handler: (_req, _res, next) => next() }, 200, 'hello'],
      ['the handler of old', { handler: (_req, res, _next, options) => res.status(options.statusCode).send(options.message) }, 429, expect.stringContaining('Quota Exceeded')],
    ])('may be %s', async (_name, options, status, body) => {
      const got = await (await limited(options)).get('/');
      expect([got.status, got.body]).toEqual([status, body]);
      expect(got.headers['retry-after']).toBe('7');
    });

    test('with headers of its own', async () => {
      const app = await limited({ onReject: () => ({ headers: { 'Content-Type': 'text/html', 'Retry-After': '99' }, body: '<p>' }) });
      expect((await app.get('/')).headers).toMatchObject({ 'content-type': 'text/html', 'retry-after': '99', 'x-ratelimit-remaining': '0' });
    });

    test('a handler that fails is an error of the app', async () => {
      const app = await limited({ handler: () => Promise.reject(new Error('oh no')) });
      vi.spyOn(console, 'error').mockReturnValue();
      expect((await app.get('/')).status).toBe(500);
      vi.restoreAllMocks();
    });
  });

  describe('what the service refuses', () => {
    test('is logged once, and the fallback decides: the app stays up', async () => {
      stub.answer = () => ({ status: 403, body: '{"detail":"allow inline_limits in the rules"}' });
      const app = await limited({ limit: 1 });
      expect((await app.get('/')).status).toBe(200);
      expect((await app.get('/')).status).toBe(429);
      expect(told.lines.filter((line) => line.includes('allow inline_limits in the rules'))).toHaveLength(1);
    });
  });

  describe('without a service', () => {
    test.each<[RateLimitOptions, number[]]>([
      [{ limit: 1 }, [200, 429]],
      [{ limit: 1, fallback: 'allow' }, [200, 200]],
      [{ limit: 1, fallback: 'deny' }, [429, 429]],
      [{ limit: 1, passOnStoreError: true }, [200, 200]],
      [{ limit: 1, passOnStoreError: false }, [429, 429]],
      [{ limit: 1, skipFailedRequests: true }, [200, 429]],
    ])('%j', async (options, statuses) => {
      const client = new Tidegate({ url: NOWHERE, logger: told });
      open.push(client);
      const app = await limited({ ...options, client });
      const got = [await app.get('/'), await app.get('/')];
      expect(got.map(({ status }) => status)).toEqual(statuses);
      for (const one of got.filter(({ status }) => status === 429)) {
        expect(one.headers['content-type']).toBe('application/problem+json');
        expect(Number(one.headers['retry-after'])).toBeGreaterThan(0);
        expect(JSON.parse(one.body)).toMatchObject({ status: 429, allowed: false });
      }
    });

    test('what is given back is given back in this process', async () => {
      const client = new Tidegate({ url: NOWHERE, logger: told });
      open.push(client);
      const app = await serve((app) => {
        app.use(limiter({ client, limit: 1, skipFailedRequests: true }));
        app.use((req, res) => void res.status(req.path === '/fails' ? 500 : 200).send('answer'));
      });
      for (let times = 0; times < 3; times += 1) expect((await app.get('/fails')).status).toBe(500);
      expect((await app.get('/works')).status).toBe(200);
      expect((await app.get('/works')).status).toBe(429);
    });
  });

  describe('by the result', () => {
    const settled = (): unknown[] => stub.asked.filter(({ path }) => path === '/v1/settle').map(({ body }) => (JSON.parse(body) as { cost: number }).cost);
    const reserving: Answering = ({ path, body, ...rest }) => {
      if (path === '/v1/settle') return { status: 200, body: '{"estimate":1,"cost":0,"limits":[]}' };
      const allowed = { id: 'r1', expires_at: '2030-01-01T00:00:00Z', allowed: true, decided_by: null, source: 'memory', limits: [] };
      return path === '/v1/reserve' ? { status: 200, headers: { 'x-ratelimit-limit': '10' }, body: JSON.stringify(allowed) } : passing()({ path, body, ...rest });
    };

    test.each<[string, RateLimitOptions, string, number]>([
      ['a failure is given back', { skipFailedRequests: true }, '/400', 0],
      ['a success is not', { skipFailedRequests: true }, '/200', 3],
      ['a success is given back', { skipSuccessfulRequests: true }, '/200', 0],
      ['a failure is not', { skipSuccessfulRequests: true }, '/500', 3],
      ['all are', { skipSuccessfulRequests: true, skipFailedRequests: true }, '/200', 0],
      ['the app says what a failure is', { skipFailedRequests: true, requestWasSuccessful: (_req, res) => Promise.resolve(res.statusCode !== 200) }, '/200', 0],
    ])('%s', async (_name, options, path, cost) => {
      stub.answer = reserving;
      const app = await serve((app) => {
        app.use(limiter({ cost: 3, ...options }));
        app.use((req, res) => void res.status(Number(req.path.slice(1))).send('answer'));
      });
      expect((await app.get(path)).headers['x-ratelimit-limit']).toBe('10');
      await until('it is settled', () => settled().length === 1);
      expect(settled()).toEqual([cost]);
    });

    test('an answer that the client did not wait for is a failure', async () => {
      stub.answer = reserving;
      let arrived = false;
      const app = await serve((app) => {
        app.use(limiter({ skipFailedRequests: true }));
        app.use(() => {
          arrived = true;
        });
      });
      const signal = new AbortController();
      const gone = app.get('/', { signal: signal.signal }).catch(() => 'gone');
      await until('the app works', () => arrived);
      signal.abort();
      expect(await gone).toBe('gone');
      await until('it is settled', () => settled().length === 1);
      expect(settled()).toEqual([0]);
    });

    test('an estimate is settled by the app once, and a failure is logged and not thrown', async () => {
      stub.answer = reserving;
      const app = await serve((app) => {
        app.use(limiter({ reserve: true, cost: 400 }));
        app.use(async (req, res) => {
          await req.rateLimit?.settle(90);
          await req.rateLimit?.settle(91);
          res.send('done');
        });
      });
      expect((await app.get('/')).body).toBe('done');
      expect(settled()).toEqual([90]);
      expect(JSON.parse(stub.asked[0]?.body ?? '')).toMatchObject({ cost: 400, ttl_ms: 600_000 });
      stub.answer = (one) => (one.path === '/v1/settle' ? { status: 410, body: '{"detail":"too late"}' } : reserving(one));
      expect((await app.get('/')).body).toBe('done');
      expect(told.lines.at(-1)).toContain('too late');
    });
  });
});

describe('options that make no sense are refused when the app starts', () => {
  test.each<[object, string]>([
    [{ store: {} }, 'the service keeps the counters'],
    [{ route: 'search' }, 'route is called name'],
    [{ retryAfter: 60 }, 'Retry-After is sent with every denial'],
    [{ draft_polli_ratelimit_headers: true }, "standardHeaders: 'draft-6'"],
    [{ standardHeaders: 'draft-9' }, 'standardHeaders must be one of "draft-11", "draft-8", "draft-7", "draft-6", true, false, got "draft-9"'],
    [{ standardHeaders: 8 }, 'standardHeaders must be one of'],
    [{ headers: true, legacyHeaders: true }, 'old name of legacyHeaders'],
    [{ name: '' }, 'name must be a non-empty string'],
    [{ name: () => 'by request' }, 'name must be a non-empty string'],
    [{ limits: '10/minute;10/minute' }, 'limits[1] is the same limit as limits[0]'],
    [{ limits: [{ requests: 1, per: 'fortnight' }] }, 'is not a valid window'],
    [{ limits: [{ requests: 1.5, per: 'minute' }] }, 'limits[0].requests must be'],
    [{ limits: [{ requests: 1, per: 'minute', algorithm: 'sliding' }] }, 'limits[0].algorithm must be one of'],
    [{ limits: [{ requests: 1, per: 'minute', algorithm: 'fixed_window', burst: 2 }] }, 'limits[0].burst belongs to'],
    [{ limits: [{ requests: 1, per: 'minute', windowMs: 2 }] }, 'limits[0].windowMs is not a field'],
    [{ limits: [] }, 'limits must be a list'],
    [{ trustedProxies: 1.5 }, 'the number of proxies'],
    [{ trustedProxies: '10.0.0.0/8' }, 'list of networks'],
    [{ windowMS: 1 }, 'it is spelt windowMs'],
    [{ onLimitReached: () => {} }, 'use handler'],
    [{ dryRun: true }, 'unknown option dryRun'],
    [{ windowMs: 0 }, 'windowMs must be'],
    [{ limit: 1.5 }, 'limit must be'],
    [{ limit: 1, max: 1 }, 'give only one of them'],
    [{ limits: '1/minute', limit: 1 }, 'give only one of'],
    [{ limits: '1/minute', descriptors: [] }, 'give only one of'],
    [{ limits: 'often' }, 'is not a valid list of limits'],
    [{ limits: '1/minute', identifier: 'x' }, 'identifier is for'],
    [{ fallback: 'open' }, 'fallback must be'],
    [{ fallback: 'deny', passOnStoreError: true }, 'give only one of them'],
    [{ trustedProxies: ['proxy'] }, 'is not a network'],
    [{ ipv6Subnet: 0 }, 'from 1 to 128'],
    [{ header: 'x-real-ip' }, 'header must be'],
    [{ url: 'nowhere' }, 'url must be like'],
  ])('%j', (options, message) => {
    expect(() => rateLimit(options as RateLimitOptions)).toThrow(message);
  });
});

test('keys of addresses, for a keyGenerator of the app', () => {
  expect(ipKeyGenerator('203.0.113.7')).toBe('203.0.113.7');
  expect(ipKeyGenerator('::ffff:203.0.113.7')).toBe('203.0.113.7');
  expect(ipKeyGenerator('2001:db8:1:2ff::9')).toBe('2001:db8:1:200::/56');
  expect(ipKeyGenerator('2001:db8:1:2ff::9', 64)).toBe('2001:db8:1:2ff::/64');
  expect(ipKeyGenerator('2001:db8:1:2ff::9', false)).toBe('2001:db8:1:2ff::9');
});
