/** The package as it is published: packed, installed elsewhere, loaded and type-checked in both module modes. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { packed, tarballIn } from './support/built.js';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
let folder: string;

function run(command: string, args: string[], cwd = folder): string {
  return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidegate-package-'));
  writeFileSync(join(folder, 'package.json'), '{}');
  run('npm', ['install', '--offline', '--no-audit', '--no-fund', tarballIn(await packed())]);
  // What an app has beside it, without asking a registry for what is here already.
  mkdirSync(join(folder, 'node_modules/@types'), { recursive: true });
  for (const name of ['@types/express', '@types/node', '@types/ws', 'express', 'ws']) {
    symlinkSync(join(here, 'node_modules', name), join(folder, 'node_modules', name));
  }
  // A build and an installation, on a machine that may have other things to do.
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NAMES = ['Limiter', 'RateLimitExceeded', 'Tidegate', 'TidegateError', 'parseLimits', 'withPermit', 'withReservation'];

test('it is loaded by import', () => {
  const code = `
    import * as tidegate from 'tidegate';
    import rateLimitByDefault, { rateLimit } from 'tidegate/express';
    import { pacedFetch } from 'tidegate/pacing';
    if (rateLimit !== rateLimitByDefault) throw new Error('the default export is another');
    new tidegate.Tidegate().close(); rateLimit({ limit: 1 }); pacedFetch();
    console.log(Object.keys(tidegate).join());`;
  const names = run('node', ['--input-type=module', '--eval', code]).trim().split(',');
  expect(names).toEqual(expect.arrayContaining(NAMES));
});

test('it is loaded by require', () => {
  const code = `
    const tidegate = require('tidegate');
    const { rateLimit } = require('tidegate/express');
    const { pacedFetch } = require('tidegate/pacing');
    new tidegate.Tidegate().close(); rateLimit({ limit: 1 }); pacedFetch();
    console.log(Object.keys(tidegate).join());`;
  const names = run('node', ['--input-type=commonjs', '--eval', code]).trim().split(',');
  expect(names).toEqual(expect.arrayContaining(NAMES));
});

test('what is required is the function itself, as with express-rate-limit', () => {
  const code = `
    const rateLimit = require('tidegate/express');
    const named = require('tidegate/express');
    if (typeof rateLimit !== 'function' || rateLimit.rateLimit !== rateLimit || rateLimit.default !== rateLimit) throw new Error('it is another');
    rateLimit({ limit: 1 }); named.ipKeyGenerator('::1'); new rateLimit.rateLimit({ limit: 1, name: 'as of old' });
    console.log(Object.keys(rateLimit).sort().join());`;
  expect(run('node', ['--input-type=commonjs', '--eval', code]).trim()).toBe('addHeaders,default,ipKeyGenerator,rateLimit,sendDenial');
  // As TypeScript and Babel compile a default import.
  const compiled = `
    const loaded = require('tidegate/express');
    const { default: rateLimit } = loaded.__esModule ? loaded : { default: loaded };
    rateLimit({ limit: 1 });`;
  run('node', ['--input-type=commonjs', '--eval', compiled]);
});

test('its types hold for modules of both kinds', () => {
  const code = `
    import express from 'express';
    import { Tidegate, withReservation, type Decision } from 'tidegate';
    import { rateLimit, type RateLimitOptions } from 'tidegate/express';
    import { pacedFetch } from 'tidegate/pacing';
    import { limitConnections } from 'tidegate/ws';
    import { WebSocketServer } from 'ws';

    new WebSocketServer({ noServer: true }).on('connection', limitConnections({ limits: '10/minute' }, (socket) => socket.resume()));
    const client = new Tidegate({ url: 'http://localhost:8080' });
    const options: RateLimitOptions = { windowMs: 60_000, limit: (req) => (req.ip ? 1 : 2), client };
    const app = express();
    app.use(rateLimit(options));
    app.get('/', (req, res) => { res.json(req.rateLimit?.remaining.toFixed()); });
    export const decision: Promise<Decision> = client.check({ descriptor: { user: 'ann' }, limits: '10/minute' });
    export const text: Promise<string> = withReservation(client, { descriptor: { user: 'ann' }, cost: 3 }, async (r) => {
      await r.settle(2);
      return 'done';
    });
    export const answer: Promise<Response> = pacedFetch({ maxRetries: 1 })('http://localhost');
    // @ts-expect-error a window is a number
    rateLimit({ windowMs: 'a minute' });
  `;
  const files = ['uses.mts', 'uses.cts'];
  for (const file of files) writeFileSync(join(folder, file), code);
  const tsc = join(here, 'node_modules/typescript/bin/tsc');
  const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--target', 'es2022', '--esModuleInterop'];
  run('node', [tsc, ...flags, '--types', 'node', ...files]);
}, 300_000);

test('it has what it needs, and nothing else', () => {
  const files = run('find', ['node_modules/tidegate', '-type', 'f']).trim().split('\n').map((file) => file.replace('node_modules/tidegate/', ''));
  expect(files.filter((file) => !file.startsWith('dist/')).sort()).toEqual(['LICENSE', 'README.md', 'package.json']);
  expect(files.every((file) => file.startsWith('dist/') ? /\.(js|d\.ts)$|cjs\/package\.json$/.test(file) : true)).toBe(true);
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'node_modules/tidegate/package.json'), 'utf8')) as { dependencies?: object };
  expect(dependencies).toBeUndefined();
});

test('it has its licence, and links that lead somewhere from anywhere', () => {
  const installed = join(folder, 'node_modules/tidegate');
  expect(readFileSync(join(installed, 'LICENSE'), 'utf8')).toBe(readFileSync(join(here, '../../LICENSE'), 'utf8'));
  expect(JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))).toMatchObject({ license: 'Apache-2.0' });
  const readme = readFileSync(join(installed, 'README.md'), 'utf8');
  const anchors = new Set([...readme.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => `#${title.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-')}`));
  const links = [...readme.matchAll(/\]\(([^)]*)\)/g)].map(([, link = '']) => link);
  expect(links.length).toBeGreaterThan(10);
  expect(links.filter((link) => !anchors.has(link) && !link.startsWith('https://'))).toEqual([]);
});

test('the lock names no registry but the public one', () => {
  const lock = readFileSync(join(here, 'package-lock.json'), 'utf8');
  const hosts = new Set([...lock.matchAll(/"resolved": "https?:\/\/([^/"]+)/g)].map(([, host]) => host));
  expect([...hosts].filter((host) => host !== 'registry.npmjs.org')).toEqual([]);
});
