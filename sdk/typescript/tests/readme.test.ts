/** The first five minutes, with exactly what the README says, in a clean folder. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { packed } from './support/built.js';
import { Service } from './support/service.js';
import { until } from './support/until.js';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
const readme = readFileSync(join(here, 'README.md'), 'utf8');
const section = /## The first five minutes\n([\s\S]*?)\n## /.exec(readme)?.[1] ?? '';
const blocks = [...section.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, kind = '', text = '']) => ({ kind, text }));
const block = (begins: string): string => blocks.find(({ text }) => text.includes(begins))?.text ?? '';

let folder: string;
let repository: string;
let service: Service;
let app: ChildProcess;
let port: number;

/** Runs commands of the README in the folder of the app. */
function sh(commands: string): string {
  return execFileSync('sh', ['-euc', commands], {
    cwd: join(folder, 'app'),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TIDEGATE: repository, npm_config_prefer_offline: 'true', npm_config_audit: 'false' },
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  await once(server, 'listening');
  const { port: free } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return free;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidegate-readme-'));
  mkdirSync(join(folder, 'app'));
  expect(block('npm pack')).toContain('(cd sdk/typescript && npm ci && npm pack)');
  repository = await packed();

  expect(block('tidegate serve')).toBe('target/release/tidegate serve\n');
  service = await Service.start('none');

  sh(block('npm init'));
  writeFileSync(join(folder, 'app/app.mjs'), block("from 'tidegate/express'"));
  port = await freePort();
  app = spawn(process.execPath, ['app.mjs'], {
    cwd: join(folder, 'app'),
    env: { ...process.env, PORT: String(port), TIDEGATE_URL: service.url },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  await until('the app listens', async () => (await fetch(`http://localhost:${port}/`).catch(() => undefined))?.status === 200);
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

test('five are welcome, and the sixth is denied as the README shows', () => {
  const [, loop = ''] = block('curl').split('node app.mjs &\n');
  const said = sh(loop.replace('http://localhost:3000', `http://localhost:${port}`)).replaceAll('\r', '');
  expect(said.match(/^welcome$/gm)).toHaveLength(5);
  const denial = said.slice(said.indexOf('HTTP/1.1 429'));
  // Times go on, and the jitter of Retry-After is the client's.
  const still = (line: string): string => line.replace(/(;t=|retry-after: )\d+/, '$1#');
  const lines = denial.split('\n').map(still);
  for (const line of block('HTTP/1.1 429').trim().split('\n')) expect(lines).toContain(still(line));
  expect(denial).toContain('"source":"memory"');
});

test('the general limit is not touched by the stricter one', async () => {
  const got = await fetch(`http://localhost:${port}/`);
  expect([got.status, await got.text()]).toEqual([200, 'hello\n']);
  expect(got.headers.get('ratelimit-policy')).toBe('"inline:minute";q=100;w=60');
});

test('it is required in both ways that the README has', () => {
  writeFileSync(join(folder, 'app/common.cjs'), `
    ${/`(const rateLimit = require\([^`]*)`/.exec(section)?.[1]};
    { ${/`(const \{ rateLimit \} = require\([^`]*)`/.exec(section)?.[1]}; rateLimit({ limit: 1 }); }
    rateLimit({ limit: 1, name: 'one' });
    console.log('made');`);
  expect(sh('node common.cjs')).toBe('made\n');
});
