/** What a limiter counts by in Express: itself and the key, whatever the client writes into path or headers. */
import { beforeEach, describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { rateLimit, type RateLimitOptions } from '../src/express.js';
import { Limiter } from '../src/limiter.js';
import type { Limit } from '../src/limits.js';
import { resetScopes } from '../src/scope.js';
import { resetWarnings } from '../src/warnings.js';
import { MAJORS, Running, type App, type Got } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { serviceForAll } from './support/service.js';
import { NOWHERE, passing, Stub } from './support/stub.js';
import { Told } from './support/until.js';

const open = closedAfterEach();
let told: Told;

beforeEach(() => {
  resetWarnings();
  resetScopes();
  told = new Told();
});

const codes = (): string[] => told.lines.map((line) => line.split(':', 1)[0] ?? '');

const service = serviceForAll();
let users = 0;

/** Who counts: the service, or the process, as the fallback of a service that is away and as `Tidegate.local`. */
const CLIENTS: readonly (readonly [name: string, make: () => Tidegate])[] = [
  ['the service', () => new Tidegate({ url: service.url, deadlineMs: 20_000, logger: told })],
  ['the fallback', () => new Tidegate({ url: NOWHERE, logger: told })],
  ['Tidegate.local', () => Tidegate.local({ logger: told })],
];

describe.each(MAJORS)('%s', (_, make) => {
  describe.each(CLIENTS)('counting with %s', (_name, clientOf) => {
    async function serve(prepare: (app: App, limited: (options: RateLimitOptions) => ReturnType<typeof rateLimit>) => void): Promise<Running> {
      const client = clientOf();
      const app = make();
      // Somebody who has not asked for anything yet.
      const user = `user ${(users += 1)}`;
      prepare(app, (options) => rateLimit({ client, logger: told, keyGenerator: () => user, ...options }));
      app.use((_req, res) => void res.send('hello'));
      const running = await Running.start(app);
      open.push(client, running);
      return running;
    }

    const passed = (got: readonly Got[]): number => got.filter(({ status }) => status === 200).length;
    const eight = <T>(of: (index: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: 8 }, (__, index) => of(index)));

    test('a path parameter in a mount is no way round the limit', async () => {
      const app = await serve((one, limited) => one.use('/users/:id', limited({ limit: 3 })));
      expect(passed(await eight((index) => app.get(`/users/${index}/posts/${index}`)))).toBe(3);
    });

    test('nor is one in a route, or another route of the same limiter, or another method', async () => {
      const app = await serve((one, limited) => {
        const limiter = limited({ limit: 3 });
        one.all('/a/:id', limiter);
        one.all('/b/:id', limiter);
      });
      expect(passed(await eight((index) => app.get(`/${index % 2 ? 'a' : 'b'}/${index}`, { method: index % 3 ? 'GET' : 'POST' })))).toBe(3);
    });

    test('an identifier that varies by a header is no way round it', async () => {
      const app = await serve((one, limited) => one.use(limited({ limit: 3, identifier: (req) => req.get('x-label') ?? 'none' })));
      const got = await eight((index) => app.get('/', { headers: { 'x-label': `label ${index}` } }));
      expect(passed(got)).toBe(3);
      expect(got.map(({ headers }) => String(headers['ratelimit-policy']))).toEqual(
        Array.from({ length: 8 }, (__, index) => `"label ${index}";q=3;w=60`),
      );
    });

    test('a general and a stricter limit over one window count apart', async () => {
      const app = await serve((one, limited) => {
        one.use(limited({ limit: 100 }));
        one.use('/login', limited({ limit: 10 }));
      });
      const got: Got[] = [];
      for (let times = 0; times < 12; times += 1) got.push(await app.get('/login'));
      expect(passed(got)).toBe(10);
      expect((await app.get('/')).headers['x-ratelimit-remaining']).toBe('87');
      expect(codes().filter((code) => code.startsWith('TIDEGATE_'))).toEqual([]);
    });

    test('two over one window in one limiter both hold', async () => {
      const app = await serve((one, limited) => one.use(limited({ limits: '3/minute;5/minute', cost: (req) => Number(req.query['cost'] ?? 1) })));
      const first = await app.get('/');
      expect(first.headers['ratelimit-policy']).toBe('"inline:3/minute";q=3;w=60, "inline:5/minute";q=5;w=60');
      expect(first.headers['ratelimit']).toBe('"inline:3/minute";r=2;t=60, "inline:5/minute";r=4;t=60');
      expect(passed(await eight(() => app.get('/')))).toBe(2);
    });

    test('a limit by request that has a name is one count, whatever its number', async () => {
      const limits: RateLimitOptions['limits'] = (req) => [{ requests: req.get('x-gold') ? 4 : 3, per: 'minute', name: 'tier', algorithm: 'sliding_window' }];
      const app = await serve((one, limited) => one.use(limited({ limits })));
      const got: Got[] = [];
      for (let index = 0; index < 8; index += 1) got.push(await app.get('/', { headers: index % 2 ? { 'x-gold': '1' } : {} }));
      expect(got.map(({ status }) => status)).toEqual([200, 200, 200, 200, 429, 429, 429, 429]);
    });

    test('a limit that has a name keeps a count for each algorithm, though its number goes up and down', async () => {
      const limits: RateLimitOptions['limits'] = (req) => [{ requests: req.get('x-gold') ? 100 : 5, per: 'hour', name: 'tier' }];
      const app = await serve((one, limited) => one.use(limited({ limits })));
      const got: Got[] = [];
      for (let index = 0; index < 40; index += 1) got.push(await app.get('/', { headers: index % 2 ? { 'x-gold': '1' } : {} }));
      // Up to 10 requests are counted by a log, more by windows: 5 of the one, and all 20 of the other.
      expect(passed(got.filter((_got, index) => index % 2 === 0))).toBe(5);
      expect(got.at(-1)?.headers['x-ratelimit-remaining']).toBe('80');
    });

    test('a default burst has the same counter as the same burst written out', async () => {
      const written: Limit[] = [
        { requests: 6, per: 'hour', burst: 6 },
        { requests: 6, per: 'hour', algorithm: 'token_bucket' },
        { requests: 6, per: 'hour', algorithm: 'gcra' },
      ];
      const app = await serve((one, limited) => {
        for (const [index, limit] of written.entries()) one.use(`/${index}`, limited({ limits: [limit], name: 'both' }));
      });
      const got: Got[] = [];
      for (let index = 0; index < 9; index += 1) got.push(await app.get(`/${index % 3}`));
      expect(got.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200, 429, 429, 429]);
    });

    test('a bucket and a window of the same numbers stand in one list, and are called apart', async () => {
      const limits: Limit[] = [{ requests: 10, per: 'minute', burst: 5 }, { requests: 10, per: 'minute' }];
      const app = await serve((one, limited) => one.use(limited({ limits })));
      const { status, headers } = await app.get('/');
      expect([status, headers['ratelimit-policy']]).toEqual([
        200, '"inline:10/minute token_bucket burst 5";q=10;w=60, "inline:10/minute default";q=10;w=60',
      ]);
    });

    test('two limiters with the same numbers count apart', async () => {
      const app = await serve((one, limited) => {
        one.use('/a', limited({ limit: 3 }));
        one.use('/b', limited({ limit: 3 }));
      });
      expect(passed(await eight(() => app.get('/a')))).toBe(3);
      expect(passed(await eight(() => app.get('/b')))).toBe(3);
    });

    test('limiters that are made while a request is handled still limit', async () => {
      const app = await serve((one, limited) => void one.get('/', (req, res, next) => limited({ limit: 3 })(req, res, next)));
      expect(passed(await eight(() => app.get('/')))).toBe(3);
      expect(codes()).not.toContain('TIDEGATE_UNNAMED_TWIN');
    });

    test('limiters that share a name share their counters', async () => {
      const app = await serve((one, limited) => {
        one.use('/a', limited({ limit: 3, name: 'both' }));
        one.use('/b', limited({ limit: 3, name: 'both' }));
      });
      expect(passed(await eight((index) => app.get(index % 2 ? '/a' : '/b')))).toBe(3);
    });
  });
});

describe('limiters without a name that have a limit in common', () => {
  let client: Tidegate;

  beforeEach(async () => {
    const stub = await Stub.start(passing());
    client = new Tidegate({ url: stub.url, logger: told });
    open.push(stub, client);
  });

  test.each<[string, RateLimitOptions, RateLimitOptions]>([
    ['the same limit', { limit: 3 }, { limit: 3 }],
    ['the same, told in another way', { windowMs: 60_000, limit: 3 }, { limits: '3/60s' }],
    ['a burst that is the default', { limits: [{ requests: 6, per: 'minute', burst: 6 }] }, { limits: [{ requests: 6, per: 'minute', algorithm: 'gcra' }] }],
    ['one of two', { limits: '3/minute;9/hour' }, { limits: '3/minute' }],
    ['functions of the request', { limit: () => 3 }, { limits: () => '3/minute' }],
  ])('are told of once: %s', (_name, one, other) => {
    for (const options of [one, other]) rateLimit({ client, logger: told, ...options });
    expect(codes()).toEqual(['TIDEGATE_UNNAMED_TWIN']);
    rateLimit({ client, logger: told, ...other });
    expect(codes()).toEqual(['TIDEGATE_UNNAMED_TWIN']);
    expect(told.lines[0]).toContain('Give each a name');
  });

  test.each<[string, RateLimitOptions, RateLimitOptions]>([
    ['other numbers', { limit: 3 }, { limit: 4 }],
    ['another window', { limit: 3 }, { limit: 3, windowMs: 1_000 }],
    ['a name', { limit: 3 }, { limit: 3, name: 'login' }],
    ['rules of the service', { descriptors: [{ a: '1' }] }, { descriptors: [{ a: '1' }] }],
    ['not to be told', { limit: 3, validate: false }, { limit: 3, validate: false }],
  ])('are not if they have %s', (_name, one, other) => {
    for (const options of [one, other]) rateLimit({ client, logger: told, ...options });
    expect(codes()).toEqual([]);
  });

  test('have separate scopes up to the hundredth', async () => {
    const limiters = Array.from({ length: 150 }, () => new Limiter({ client: Tidegate.local(), limits: '3/minute' }));
    const scopes = await Promise.all(limiters.map(async (limiter) => {
      const asked = limiter.client.check.bind(limiter.client);
      let scope = '';
      limiter.client.check = (request, options) => {
        scope = JSON.stringify(request.descriptors);
        return asked(request, options);
      };
      await limiter.decide({ method: 'GET', path: '/', peer: '192.0.2.1', headers: {} });
      return scope;
    }));
    expect(new Set(scopes).size).toBe(100);
  });

  test('are not warned of while their requests have templates', async () => {
    const limiters = [1, 2].map(() => new Limiter({ client, logger: told, limits: '3/minute' }));
    const request = { method: 'GET', path: '/7', peer: '192.0.2.1', headers: {} };
    for (const limiter of limiters) await limiter.decide({ ...request, template: 'GET /:id' });
    expect(codes()).toEqual([]);
    for (const limiter of limiters) await limiter.decide(request);
    expect(codes()).toEqual(['TIDEGATE_UNNAMED_TWIN']);
  });
});

test('a label is written as the name of the policy, in the body of a denial, too', async () => {
  const client = Tidegate.local();
  const limiter = new Limiter({ client, limits: '1/minute', identifier: () => 'grün "a", b\n' });
  const request = { method: 'GET', path: '/', peer: '192.0.2.1', headers: {} };
  await limiter.decide(request);
  const outcome = await limiter.decide(request);
  if (outcome.kind !== 'deny') throw new Error('it has to be denied');
  const label = 'gr%C3%BCn %22a%22%2C b%250A';
  expect(Object.fromEntries(outcome.headers)).toMatchObject({ 'ratelimit-policy': `"${label}";q=1;w=60`, ratelimit: `"${label}";r=0;t=60` });
  expect(JSON.parse(outcome.body)).toMatchObject({ 'violated-policies': [label], scope: 'inline' });
});
