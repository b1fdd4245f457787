/** Where the service is and who asked, as apps find it: variables, Unix sockets, and proxies that are counted. */
import { mkdtempSync, rmSync } from 'node:fs';
import * as http from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { Tidegate } from '../src/client.js';
import { rateLimit, type RateLimitOptions } from '../src/express.js';
import { Limiter } from '../src/limiter.js';
import { resetScopes } from '../src/scope.js';
import { resetWarnings } from '../src/warnings.js';
import { MAJORS, Running } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { passing, Stub } from './support/stub.js';
import { Told } from './support/until.js';

const open = closedAfterEach();
let told: Told;
let stub: Stub;

beforeEach(async () => {
  resetWarnings();
  resetScopes();
  told = new Told();
  stub = await Stub.start(passing());
  open.push(stub);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

const codes = (): string[] => told.lines.map((line) => line.split(':', 1)[0] ?? '');
const clients = (): (string | undefined)[] => stub.asked.map(({ body }) => /"client","value":"([^"]*)"/.exec(body)?.[1]);

describe('the environment', () => {
  const request = { descriptor: { user: 'ann' }, limits: '10/minute' };

  test('says where the service is, and what its token is', async () => {
    vi.stubEnv('TIDEGATE_URL', stub.url);
    vi.stubEnv('TIDEGATE_TOKEN', 'tg_secret');
    const client = new Tidegate({ deadlineMs: 20_000 });
    const limiter = new Limiter({ limits: '10/minute', deadlineMs: 20_000 });
    open.push(client, limiter.client);
    expect((await client.check(request)).source).toBe('memory');
    expect((await limiter.decide({ method: 'GET', path: '/', peer: '192.0.2.1', headers: {} })).kind).toBe('pass');
    expect(stub.asked.map(({ headers }) => headers.authorization)).toEqual(['Bearer tg_secret', 'Bearer tg_secret']);
  });

  test('is not used if the code sets the option, and an empty variable counts as missing', async () => {
    vi.stubEnv('TIDEGATE_URL', 'http://127.0.0.1:1');
    vi.stubEnv('TIDEGATE_TOKEN', 'tg_secret');
    const told = new Tidegate({ url: stub.url, token: 'mine', deadlineMs: 20_000 });
    open.push(told);
    await told.check(request);
    expect(stub.asked.map(({ headers }) => headers.authorization)).toEqual(['Bearer mine']);
    vi.stubEnv('TIDEGATE_URL', '');
    const usual = new Tidegate();
    open.push(usual);
    expect(usual.url).toBe('http://localhost:8080');
  });

  test('that has no url in it is refused at start', () => {
    vi.stubEnv('TIDEGATE_URL', 'localhost:8080');
    expect(() => new Tidegate()).toThrow('url must be like');
  });
});

describe.each(MAJORS)('%s', (_, make) => {
  function limiter(options: RateLimitOptions): ReturnType<typeof rateLimit> {
    const client = new Tidegate({ url: stub.url, logger: told, deadlineMs: 20_000 });
    open.push(client);
    return rateLimit({ client, logger: told, ...options });
  }

  /** The app behind a Unix socket, asked with this header. */
  async function throughSocket(options: RateLimitOptions, forwarded: string[]): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-socket-'));
    const app = make();
    app.use(limiter(options), (_req, res) => void res.send('hello'));
    const server = http.createServer(app);
    server.listen(join(folder, 'app.sock'));
    await once(server, 'listening');
    open.push({ close: () => rmSync(folder, { recursive: true, force: true }) }, { close: () => new Promise((resolve) => server.close(resolve)) });
    for (const value of forwarded) {
      const request = http.request({ socketPath: join(folder, 'app.sock'), headers: { 'x-forwarded-for': value }, agent: false });
      request.end();
      const [response] = (await once(request, 'response')) as [http.IncomingMessage];
      expect(response.statusCode).toBe(200);
      response.resume();
      await once(response, 'end');
    }
  }

  test('through a Unix socket all clients share one key, which is warned of once', async () => {
    await throughSocket({}, ['198.51.100.1', '198.51.100.2']);
    expect(clients()).toEqual(['unknown', 'unknown']);
    expect(codes()).toEqual(['TIDEGATE_NO_ADDRESS']);
    expect(told.lines[0]).toContain('trustedProxies: 1');
  });

  test('with one proxy behind it, the last entry is the client', async () => {
    await throughSocket({ trustedProxies: 1 }, ['198.51.100.1', '1.2.3.4, 198.51.100.2']);
    expect(clients()).toEqual(['198.51.100.1', '198.51.100.2']);
    expect(codes()).toEqual([]);
  });

  test('a key of the app needs no address', async () => {
    await throughSocket({ keyGenerator: () => 'ann' }, ['198.51.100.1']);
    expect(clients()).toEqual(['ann']);
    expect(codes()).toEqual([]);
  });

  test('proxies may be counted, and trust proxy of the app is then no matter', async () => {
    const app = make();
    app.set('trust proxy', 2);
    app.use(limiter({ trustedProxies: 2 }), (_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    for (const value of ['9.9.9.9, 198.51.100.1, 10.0.0.1', '198.51.100.2', 'junk, 10.0.0.1']) {
      await running.get('/', { headers: { 'x-forwarded-for': value } });
    }
    await running.get('/');
    expect(clients()).toEqual(['198.51.100.1', '198.51.100.2', '10.0.0.1', '127.0.0.1']);
    expect(codes()).toEqual([]);
  });

  test('the network of an address of version 6 may depend on the request', async () => {
    const asked: string[] = [];
    const app = make();
    const ipv6Subnet: RateLimitOptions['ipv6Subnet'] = (req) => {
      asked.push(req.get('x-forwarded-for') ?? '');
      return req.get('x-each') ? false : 60;
    };
    app.use(limiter({ trustedProxies: 1, ipv6Subnet }), (_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    await running.get('/', { headers: { 'x-forwarded-for': '2001:db8:1:2ff::9' } });
    await running.get('/', { headers: { 'x-forwarded-for': '2001:db8:1:2ff::9', 'x-each': '1' } });
    await running.get('/', { headers: { 'x-forwarded-for': '198.51.100.1' } });
    expect(clients()).toEqual(['2001:db8:1:2f0::/60', '2001:db8:1:2ff::9', '198.51.100.1']);
    // As with express-rate-limit, it is asked only where it matters.
    expect(asked).toEqual(['2001:db8:1:2ff::9', '2001:db8:1:2ff::9']);
  });

  test('a key of such an address is given as its network', async () => {
    const one = limiter({ limit: 5, ipv6Subnet: () => 60 });
    await expect(one.getKey('2001:db8:1:2ff::9')).rejects.toThrow('give the network');
    await one.getKey('2001:db8:1:2f0::/60');
    await one.getKey('198.51.100.1');
    expect(clients()).toEqual(['2001:db8:1:2f0::/60', '198.51.100.1']);
  });

  test('options that are undefined are as if they were not there, and headers is the old name of legacyHeaders', async () => {
    const app = make();
    app.use(limiter({ store: undefined, retryAfter: undefined, headers: false } as RateLimitOptions), (_req, res) => void res.send('hello'));
    const running = await Running.start(app);
    open.push(running);
    const { status, headers } = await running.get('/');
    expect(status).toBe(200);
    expect(Object.keys(headers).filter((name) => name.includes('ratelimit'))).toEqual(['ratelimit-policy', 'ratelimit']);
  });
});
