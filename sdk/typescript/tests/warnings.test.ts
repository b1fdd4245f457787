import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { Tidegate } from '../src/client.js';
import { rateLimit, type RateLimitOptions } from '../src/express.js';
import { Limiter } from '../src/limiter.js';
import type { PlainRequest } from '../src/limiter-options.js';
import type { Limit } from '../src/limits.js';
import { resetWarnings } from '../src/warnings.js';
import { MAJORS, Running } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { passing, Stub } from './support/stub.js';
import { Told, until } from './support/until.js';

const open = closedAfterEach();
let told: Told;
let client: Tidegate;

beforeEach(async () => {
  resetWarnings();
  told = new Told();
  const stub = await Stub.start(passing());
  client = new Tidegate({ url: stub.url, logger: told, deadlineMs: 20_000 });
  open.push(stub, client);
});

const codes = (): string[] => told.lines.map((line) => line.split(':', 1)[0] ?? '');

test.each<[string, RateLimitOptions]>([
  ['TIDEGATE_TRUST_ALL', { trustedProxies: ['10.0.0.0/8', '0.0.0.0/0'] }],
  ['TIDEGATE_TRUST_ALL', { trustedProxies: ['::/0'] }],
  ['TIDEGATE_IPV6_UNGROUPED', { ipv6Subnet: 65 }],
  ['TIDEGATE_IPV6_UNGROUPED', { ipv6Subnet: false }],
  ['TIDEGATE_SPOOFABLE_KEY', { keyGenerator: (req) => req.get('X-Forwarded-For') ?? '' }],
  ['TIDEGATE_SPOOFABLE_KEY', { keyGenerator: (req) => String(req.headers['cf-connecting-ip']) }],
])('%s is told at start, once', (code, options) => {
  rateLimit({ client, logger: told, name: 'one', ...options });
  rateLimit({ client, logger: told, name: 'one', ...options });
  expect(codes()).toEqual([code]);
});

test.each<[RateLimitOptions]>([
  [{ trustedProxies: ['10.0.0.0/8'], ipv6Subnet: 64 }],
  [{ keyGenerator: (req) => req.get('x-api-key') ?? '' }],
  [{ trustedProxies: ['::/0'], validate: false }],
  [{ trustedProxies: ['::/0'], validate: { TIDEGATE_TRUST_ALL: false } }],
  [{ trustedProxies: ['::/0'], validate: { default: false } }],
])('nothing is told of what is right, or not to be told: %j', (options) => {
  rateLimit({ client, logger: told, name: 'one', ...options });
  expect(told.lines).toEqual([]);
});

test('a core is warned of keys that clients can write, too', () => {
  new Limiter({ client, logger: told, limits: '1/minute', key: ({ headers }: PlainRequest) => (headers as { 'x-real-ip': string })['x-real-ip'] });
  expect(codes()).toEqual(['TIDEGATE_SPOOFABLE_KEY']);
});

test('more than a hundred limiters are too many', () => {
  const kept = Array.from({ length: 99 }, () => rateLimit({ client, logger: told, name: 'one' }));
  expect(codes()).toEqual([]);
  kept.push(rateLimit({ client, logger: told, name: 'one' }), rateLimit({ client, logger: told, name: 'one' }));
  expect(codes()).toEqual(['TIDEGATE_LIMITER_PER_REQUEST']);
  expect(kept).toHaveLength(101);
});

describe('limiters that are gone', () => {
  afterEach(() => vi.restoreAllMocks());

  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;

  /** Makes some that nobody keeps, and waits until they are gone. */
  async function makeAndForget(count: number): Promise<void> {
    let left = count;
    const gone = new FinalizationRegistry<undefined>(() => (left -= 1));
    for (let made = 0; made < count; made += 1) gone.register(rateLimit({ client, logger: told, name: 'one' }), undefined);
    await until('they are gone', () => {
      collect();
      return left === 0;
    });
  }

  test('are too many if more than a hundred were made within a minute', async () => {
    // The client is one, too.
    await makeAndForget(50);
    await makeAndForget(49);
    expect(codes()).toEqual([]);
    await makeAndForget(1);
    expect(codes()).toEqual(['TIDEGATE_LIMITER_PER_REQUEST']);
  });

  test('are not if it took longer', async () => {
    let now = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    for (let times = 0; times < 4; times += 1) {
      now += 40_000;
      await makeAndForget(45);
    }
    expect(codes()).toEqual([]);
  });
});

for (const [name, make] of MAJORS) {
  test(`${name}: a limiter created while a request is handled is warned of`, async () => {
    const app = make();
    app.get('/sync', (req, res, next) => rateLimit({ client, logger: told, name: 'one' })(req, res, next));
    app.get('/sync', (_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    await running.get('/sync');
    await running.get('/sync');
    expect(codes()).toEqual(['TIDEGATE_LIMITER_PER_REQUEST']);
  });

  test(`${name}: a request that is counted twice is warned of once`, async () => {
    const app = make();
    const limit = rateLimit({ client, logger: told, name: 'one' });
    app.use(limit);
    app.use(limit);
    app.use((_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    await running.get('/');
    await running.get('/');
    expect(codes()).toEqual(['TIDEGATE_DOUBLE_COUNT']);
  });

  test(`${name}: two limits of one request are no double count`, async () => {
    const app = make();
    app.use(rateLimit({ client, logger: told, name: 'one', limits: '10/second' }), rateLimit({ client, logger: told, name: 'one', limits: '100/hour' }));
    app.get('/', rateLimit({ client, logger: told, name: 'two', limits: '10/second' }), (_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    expect((await running.get('/')).status).toBe(200);
    expect(codes()).toEqual([]);
  });

  test(`${name}: one limit in common of two that share a name is a double count`, async () => {
    const app = make();
    app.use(rateLimit({ client, logger: told, name: 'one', limits: '10/second;100/hour' }));
    app.get('/', rateLimit({ client, logger: told, name: 'one', limits: '10/second' }), (_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    await running.get('/');
    expect(codes()).toEqual(['TIDEGATE_DOUBLE_COUNT']);
  });

  test(`${name}: a burst that is the default is no other counter`, async () => {
    const app = make();
    const written: Limit[] = [{ requests: 6, per: 'minute', burst: 6 }, { requests: 6, per: 'minute', algorithm: 'token_bucket' }];
    for (const limit of written) app.use(rateLimit({ client, logger: told, name: 'one', limits: [limit] }));
    app.use((_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    await running.get('/');
    expect(codes()).toEqual(['TIDEGATE_DOUBLE_COUNT']);
  });

  test(`${name}: trust proxy of the app is not used, which is warned of`, async () => {
    const app = make();
    app.set('trust proxy', true);
    app.use(rateLimit({ client, logger: told, name: 'one' }));
    app.use((_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    await running.get('/');
    expect(codes()).toEqual(['TIDEGATE_TRUST_PROXY_IGNORED']);
  });
}

test('each text says what to do', () => {
  rateLimit({ client, logger: told, name: 'one', trustedProxies: ['::/0'], ipv6Subnet: 128, keyGenerator: (req) => req.get('x-real-ip') ?? '' });
  expect(told.lines).toHaveLength(3);
  for (const line of told.lines) expect(line).toMatch(/^TIDEGATE_[A-Z0-9_]+: .{80,}\.$/);
});
