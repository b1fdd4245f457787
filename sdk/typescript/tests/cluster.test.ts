/** Workers of `node:cluster`, forked after the primary has used a client: each gets its own decisions. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { installInto } from './support/built.js';
import { Service } from './support/service.js';

let folder: string;
let service: Service;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidegate-cluster-'));
  await installInto(folder);
  service = await Service.start();
}, 300_000);
afterAll(async () => {
  await service?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const WORKERS = 4;
const CHECKS = 100;

/**
 * The module makes a client and a limiter before the workers are forked, and the primary uses them. Each
 * worker then asks about a limit of its own, whose numbers tell whose decision it is, and about one that all
 * share.
 */
const APP = `
import cluster from 'node:cluster';
import { Limiter, Tidegate } from 'tidegate';

const client = new Tidegate({ deadlineMs: 20_000 });
const limiters = ['50/hour', '60/day', '60/day'].map((limits) => new Limiter({ client, limits, validate: false }));
const request = { method: 'GET', path: '/', peer: '192.0.2.1', headers: {} };

if (cluster.isPrimary) {
  await client.check({ descriptor: { warm: 'up' }, limits: '9/hour' });
  const reports = [];
  for (let index = 0; index < ${WORKERS}; index += 1) {
    const worker = cluster.fork({ INDEX: String(index) });
    reports.push(new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('exit', (code) => code && reject(new Error('a worker failed')));
    }));
  }
  console.log(JSON.stringify(await Promise.all(reports)));
  client.close();
} else {
  const own = 1000 + Number(process.env.INDEX);
  const request_ = { descriptor: { worker: String(own) }, limits: own + '/hour' };
  const decisions = await Promise.all(Array.from({ length: ${CHECKS} }, () => client.check(request_)));
  const shared = [0, 0, 0];
  for (const [at, limiter] of limiters.entries()) {
    for (let times = 0; times < 30; times += 1) if ((await limiter.decide(request)).kind === 'pass') shared[at] += 1;
  }
  process.send({
    limits: [...new Set(decisions.map(({ limits }) => limits[0].limit - own))],
    sources: [...new Set(decisions.map(({ source }) => source))],
    least: own - Math.min(...decisions.map(({ limits }) => limits[0].remaining)),
    shared,
  }, () => process.exit(0));
}
`;

interface Report {
  readonly limits: number[];
  readonly sources: string[];
  readonly least: number;
  readonly shared: number[];
}

test('each worker gets its own decisions, and limiters of all workers count together', async () => {
  const file = join(folder, 'app.mjs');
  writeFileSync(file, APP);
  const app = spawn(process.execPath, [file], { env: { ...process.env, TIDEGATE_URL: service.url }, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  app.stdout.on('data', (piece: Buffer) => (output += piece.toString()));
  const [code] = (await once(app, 'close')) as [number];
  expect(code).toBe(0);
  const reports = JSON.parse(output) as Report[];
  for (const { limits, sources, least } of reports) expect({ limits, sources, least }).toEqual({ limits: [0], sources: ['memory'], least: CHECKS });
  // Twins are told apart by their order, which is the same in every worker.
  const passed = [0, 1, 2].map((at) => reports.reduce((sum, { shared }) => sum + (shared[at] ?? 0), 0));
  expect(passed).toEqual([50, 60, 60]);
});
