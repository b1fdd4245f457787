/** What clients may write to examples/express, which here runs with the sources as they are. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { installInto } from './support/built.js';
import { passing, Stub, type CheckBody } from './support/stub.js';
import { until } from './support/until.js';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
let folder: string;
let stub: Stub;
let app: ChildProcess;
let url: string;

/** Whatever is asked for passes. */
function answer(asked: CheckBody): ReturnType<ReturnType<typeof passing>> {
  const decision = { allowed: true, decided_by: null, source: 'memory', limits: [] };
  if (asked.path === '/v1/reserve') {
    return { status: 200, body: JSON.stringify({ id: 'r1', expires_at: '2100-01-01T00:00:00Z', ...decision }) };
  }
  if (asked.path === '/v1/settle') return { status: 200, body: JSON.stringify({ estimate: 1, cost: 1, limits: [] }) };
  return passing()(asked);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidegate-example-'));
  await installInto(folder);
  copyFileSync(join(here, '../../examples/express/main.mjs'), join(folder, 'main.mjs'));

  stub = await Stub.start(answer);
  app = spawn(process.execPath, [join(folder, 'main.mjs')], {
    env: { ...process.env, PORT: '0', TIDEGATE_URL: stub.url, TIDEGATE_FALLBACK: 'deny' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: app.stdout as NodeJS.ReadableStream }), 'line')) as [string];
  url = line.replace('listening on ', '');
  // On a busy machine the first request may take longer than a decision may.
  await until('the app answers in time', async () => (await post('/reports')) === 200);
}, 300_000);
afterAll(async () => {
  if (app && app.exitCode === null && app.signalCode === null) {
    const ended = once(app, 'exit');
    app.kill();
    await ended;
  }
  await stub?.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  stub.asked.length = 0;
});

interface Body {
  readonly cost: number;
  readonly descriptors: readonly { entries: readonly { key: string; value: string }[] }[];
}

/** What the service was asked, oldest first. */
const asked = (): Body[] => stub.asked.map(({ body }) => JSON.parse(body) as Body);

async function post(path: string, headers: Record<string, string> = {}, body?: unknown): Promise<number> {
  const typed = body === undefined ? {} : { 'content-type': 'application/json' };
  const init = { method: 'POST', headers: { ...headers, ...typed }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const got = await fetch(url + path, init);
  await got.text();
  return got.status;
}

test.each([
  ['', 1], ['?pages=', 1], ['?pages=0', 1], ['?pages=-3', 1], ['?pages=1e1', 1], ['?pages=0x10', 1], ['?pages=2.0', 1],
  ['?pages=%204', 1], ['?pages=4&pages=5', 1], ['?pages[a]=4', 1], ['?pages=4', 4], ['?pages=012', 12],
  ['?pages=99999999999999999999', 2 ** 53],
])('a report with %j takes %d', async (query, cost) => {
  expect(await post(`/reports${query}`)).toBe(200);
  expect(asked().map((one) => one.cost)).toEqual([cost]);
});

const prompt = { prompt: 'hi', max_tokens: 400, used: 90 };

test.each<[string, unknown]>([
  ['fewer than no tokens', { ...prompt, max_tokens: -1 }],
  ['half a token', { ...prompt, max_tokens: 0.5 }],
  ['a text for a number', { ...prompt, max_tokens: '400' }],
  ['no number', { ...prompt, max_tokens: null }],
  ['a list', { ...prompt, max_tokens: [400] }],
  ['less than nothing used', { ...prompt, used: -1 }],
  ['a half used', { ...prompt, used: 1.5 }],
  ['true used', { ...prompt, used: true }],
  ['nothing said of use', { prompt: 'hi', max_tokens: 400 }],
  ['no prompt', { max_tokens: 400, used: 90 }],
  ['a list in place of all', [prompt]],
  ['nothing at all', undefined],
])('a completion with %s is 422, and takes nothing', async (_, body) => {
  expect(await post('/complete', {}, body)).toBe(422);
  expect(stub.asked).toEqual([]);
});

test('a completion reserves the most and settles what it used', async () => {
  expect(await post('/complete', { 'x-api-key': 'ann' }, prompt)).toBe(200);
  expect(await post('/complete', { 'x-api-key': 'ann' }, { ...prompt, max_tokens: 0, used: 0 })).toBe(200);
  expect(asked().map(({ cost }) => cost)).toEqual([400, 90, 0, 0]);
});

test('an empty x-api-key is as none', async () => {
  for (const headers of [{}, { 'x-api-key': '' }] as Record<string, string>[]) {
    await post('/orders', headers);
    await post('/reports', headers);
    await post('/complete', headers, prompt);
  }
  const keys = asked().flatMap(({ descriptors = [] }) => descriptors.map(({ entries }) => entries.find(({ key }) => key === 'api_key' || key === 'client')?.value));
  expect(keys).toEqual(['anonymous', '127.0.0.1', '127.0.0.1', 'anonymous', '127.0.0.1', '127.0.0.1']);
});
