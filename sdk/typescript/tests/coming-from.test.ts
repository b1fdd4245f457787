/** What users of express-rate-limit expect: the same apps with either package, and the app of the page about moving over. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Request, RequestHandler, Response } from 'express';
import { rateLimit as theirs } from 'express-rate-limit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { rateLimit, type RateLimitOptions } from '../src/express.js';
import { MAJORS, Running, type App, type Got } from './support/app.js';
import { installInto } from './support/built.js';
import { closedAfterEach } from './support/open.js';
import { Service } from './support/service.js';
import { until } from './support/until.js';

const open = closedAfterEach();

/** Both take these options; what is ours alone is left out. */
type Common = Record<string, unknown>;
type Limiter = RequestHandler & { resetKey(key: string): unknown; getKey(key: string): unknown };
type Make = (options?: Common) => Limiter;

/** The same app for both, and what a client then sees of it. */
interface Scenario {
  readonly name: string;
  readonly app: (app: App, limited: Make) => void;
  readonly see: (ask: (path: string, headers?: Record<string, string>, method?: string) => Promise<Got>) => Promise<unknown>;
}

const hello: RequestHandler = (_req, res) => void res.send('hello');
const statuses = async (ask: () => Promise<Got>, times: number): Promise<number[]> => {
  const got: number[] = [];
  for (let count = 0; count < times; count += 1) got.push((await ask()).status);
  return got;
};
/** Names of headers about limits, and `Retry-After`. */
const named = ({ headers }: Got): string[] => Object.keys(headers).filter((name) => /ratelimit|retry-after/.test(name)).sort();

const everywhere = (options?: Common) => (app: App, limited: Make): void => {
  app.use(limited(options));
  app.use(hello);
};

const SCENARIOS: readonly Scenario[] = [
  { name: 'the defaults: five a minute', app: everywhere(), see: (ask) => statuses(() => ask('/'), 7) },
  { name: 'no options at all', app: everywhere({}), see: (ask) => statuses(() => ask('/'), 7) },
  { name: 'max, the old name', app: everywhere({ max: 2 }), see: (ask) => statuses(() => ask('/'), 4) },
  { name: 'a limit of 0', app: everywhere({ limit: 0 }), see: (ask) => statuses(() => ask('/'), 2) },
  { name: 'a limit by request', app: everywhere({ limit: (req: Request) => (req.get('x-gold') ? 3 : 1) }), see: (ask) => statuses(() => ask('/', { 'x-gold': '1' }), 5) },
  { name: 'a parameter in a mount', app: (app, limited) => void app.use('/users/:id', limited({ limit: 3 }), hello), see: async (ask) => { let user = 0; return statuses(() => ask(`/users/${(user += 1)}`), 8); } },
  { name: 'a parameter in a route', app: (app, limited) => void app.get('/users/:id', limited({ limit: 3 }), hello), see: async (ask) => { let user = 0; return statuses(() => ask(`/users/${(user += 1)}?q=${user}`), 8); } },
  { name: 'one limiter on two routes is one count', app: (app, limited) => { const one = limited({ limit: 3 }); app.get('/a', one, hello); app.post('/b', one, hello); }, see: async (ask) => [await statuses(() => ask('/a'), 2), await statuses(() => ask('/b', {}, 'POST'), 2)] },
  { name: 'a general and a stricter limit', app: (app, limited) => { app.use(limited({ limit: 8 })); app.use('/login', limited({ limit: 3 })); app.use(hello); }, see: async (ask) => [await statuses(() => ask('/login'), 4), await statuses(() => ask('/'), 4)] },
  { name: 'two limiters with the same numbers', app: (app, limited) => { app.use('/a', limited({ limit: 2 }), hello); app.use('/b', limited({ limit: 2 }), hello); }, see: async (ask) => [await statuses(() => ask('/a'), 3), await statuses(() => ask('/b'), 3)] },
  { name: 'an identifier that varies', app: everywhere({ limit: 3, standardHeaders: 'draft-8', identifier: (req: Request) => req.get('x-label') ?? '' }), see: async (ask) => { let label = 0; return statuses(() => ask('/', { 'x-label': `l${(label += 1)}` }), 8); } },
  { name: 'a key of the app', app: everywhere({ limit: 1, keyGenerator: (req: Request) => req.get('x-user') ?? 'nobody' }), see: async (ask) => [await statuses(() => ask('/', { 'x-user': 'ann' }), 2), await statuses(() => ask('/', { 'x-user': 'bob' }), 2)] },
  { name: 'skip', app: everywhere({ limit: 1, skip: (req: Request) => req.path === '/health' }), see: async (ask) => [await statuses(() => ask('/health'), 3), await statuses(() => ask('/'), 2)] },
  { name: 'message as text', app: everywhere({ limit: 0, message: 'slow down' }), see: async (ask) => { const got = await ask('/'); return [got.status, got.body, got.headers['content-type']]; } },
  { name: 'message as an object', app: everywhere({ limit: 0, message: { error: 'slow down' } }), see: async (ask) => { const got = await ask('/'); return [got.status, got.body, got.headers['content-type']]; } },
  { name: 'message as a function', app: everywhere({ limit: 0, message: async (req: Request) => `not ${req.path}` }), see: async (ask) => (await ask('/x')).body },
  { name: 'statusCode', app: everywhere({ limit: 0, statusCode: 503, message: 'go away' }), see: async (ask) => { const got = await ask('/'); return [got.status, got.body]; } },
  { name: 'a handler', app: everywhere({ limit: 0, message: 'no', handler: (_req: Request, res: Response, _next: unknown, options: { statusCode: number; message: string }) => res.status(options.statusCode).send(`${options.message}!`) }), see: async (ask) => { const got = await ask('/'); return [got.status, got.body]; } },
  { name: 'a handler that passes on', app: everywhere({ limit: 0, handler: (_req: Request, _res: Response, next: () => void) => next() }), see: (ask) => statuses(() => ask('/'), 2) },
  { name: 'the state on the request', app: (app, limited) => { app.use(limited({ limit: 5, requestPropertyName: 'quota' })); app.use((req, res) => { const { limit, used, remaining, key } = (req as unknown as { quota: Record<string, unknown> }).quota; res.json({ limit, used, remaining, key }); }); }, see: async (ask) => [(await ask('/')).body, (await ask('/')).body] },
  { name: 'headers: draft 6 and legacy', app: everywhere({ limit: 1, standardHeaders: true }), see: async (ask) => [named(await ask('/')), named(await ask('/'))] },
  { name: 'headers: draft 7 alone', app: everywhere({ limit: 1, standardHeaders: 'draft-7', legacyHeaders: false }), see: async (ask) => { const got = await ask('/'); return [named(got), got.headers['ratelimit'], got.headers['ratelimit-policy']]; } },
  { name: 'headers: draft 8 alone', app: everywhere({ limit: 1, standardHeaders: 'draft-8', legacyHeaders: false }), see: async (ask) => named(await ask('/')) },
  { name: 'headers, the old name of legacyHeaders', app: everywhere({ limit: 1, headers: false, standardHeaders: false }), see: async (ask) => named(await ask('/')) },
  { name: 'options that are undefined', app: everywhere({ limit: 1, store: undefined, message: undefined, handler: undefined, keyGenerator: undefined }), see: (ask) => statuses(() => ask('/'), 2) },
  { name: 'skipFailedRequests', app: (app, limited) => { app.use(limited({ limit: 2, skipFailedRequests: true })); app.use((req, res) => void res.status(req.path === '/fails' ? 500 : 200).send('answer')); }, see: async (ask) => [await statuses(() => ask('/fails'), 4), await statuses(() => ask('/'), 3)] },
  { name: 'skipSuccessfulRequests', app: (app, limited) => { app.use(limited({ limit: 2, skipSuccessfulRequests: true })); app.use((req, res) => void res.status(req.path === '/fails' ? 401 : 200).send('answer')); }, see: async (ask) => [await statuses(() => ask('/'), 4), await statuses(() => ask('/fails'), 3)] },
  {
    name: 'resetKey and getKey',
    app: (app, limited) => {
      const limiter = limited({ limit: 2, keyGenerator: () => 'ann', skip: (req: Request) => req.path.startsWith('/-') });
      app.use(limiter);
      app.get('/-reset', async (_req, res) => { await limiter.resetKey('ann'); res.send('reset'); });
      app.get('/-get', async (_req, res) => { const known = (await limiter.getKey('ann')) as { totalHits: number } | undefined; res.json(known?.totalHits ?? null); });
      app.use(hello);
    },
    see: async (ask) => [(await ask('/-get')).body, await statuses(() => ask('/'), 2), (await ask('/-get')).body, await statuses(() => ask('/'), 1), (await ask('/-reset')).body, await statuses(() => ask('/'), 3)],
  },
];

describe.each(MAJORS)('%s', (_, make) => {
  async function seen(scenario: Scenario, limited: Make): Promise<unknown> {
    const app = make();
    scenario.app(app, limited);
    const running = await Running.start(app);
    open.push(running);
    const ask = async (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> => {
      const got = await running.get(path, { headers, method });
      // What a request gave back is counted when its answer is out, which is a moment later.
      await new Promise((resolve) => setImmediate(resolve));
      return got;
    };
    return scenario.see(ask);
  }

  test.each(SCENARIOS)('behaves as express-rate-limit does: $name', async (scenario) => {
    const client = Tidegate.local();
    const ours = await seen(scenario, (options) => rateLimit({ client, validate: false, ...(options as RateLimitOptions) }) as Limiter);
    expect(ours).toEqual(await seen(scenario, (options) => theirs({ validate: false, ...options }) as unknown as Limiter));
  });
});

describe('the page about moving over', () => {
  const page = readFileSync(new URL('../../../docs/coming-from-express-rate-limit.md', import.meta.url), 'utf8');
  const code = /```js\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  let folder: string;
  let service: Service;
  let app: ChildProcess;
  let url: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tidegate-coming-'));
    await installInto(folder);
    writeFileSync(join(folder, 'app.mjs'), code);
    service = await Service.start('none');
    const free = createServer().listen(0);
    await once(free, 'listening');
    const { port } = free.address() as AddressInfo;
    await new Promise((resolve) => free.close(resolve));
    url = `http://localhost:${port}`;
    app = spawn(process.execPath, [join(folder, 'app.mjs')], { env: { ...process.env, PORT: String(port), TIDEGATE_URL: service.url }, stdio: ['ignore', 'inherit', 'inherit'] });
    await until('the app answers', async () => (await fetch(`${url}/api/items`).catch(() => undefined))?.status === 200);
  }, 300_000);
  afterAll(async () => {
    if (app && app.exitCode === null && app.signalCode === null) {
      const ended = once(app, 'exit');
      app.kill();
      await ended;
    }
    await service?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('has an app that limits as it says', async () => {
    const login = (): Promise<globalThis.Response> => fetch(`${url}/login`, { method: 'POST', headers: { 'x-forwarded-for': '1.1.1.1, 198.51.100.7' } });
    const got: number[] = [];
    for (let times = 0; times < 6; times += 1) got.push((await login()).status);
    expect(got).toEqual([401, 401, 401, 401, 401, 429]);
    expect(await (await login()).json()).toEqual({ error: 'too many attempts, try again later' });
    const items = await fetch(`${url}/api/items`, { headers: { 'x-forwarded-for': '198.51.100.8' } });
    expect([items.status, items.headers.get('ratelimit-policy'), items.headers.get('x-ratelimit-limit')]).toEqual([200, '"inline:15m";q=100;w=900', null]);
  });
});
