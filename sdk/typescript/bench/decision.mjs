// Measures how long a decision takes, from the call to its result: one by itself, and 100 at the same time.
//
//   node bench/decision.mjs [--json] [--url http://localhost:8080] [--rounds 5000]
//
// It needs a built package (`npm run build`) and a running service, and fails if the fallback decided.
import { parseArgs } from 'node:util';

import { Tidegate } from '../dist/esm/index.js';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    url: { type: 'string', default: process.env.TIDEGATE_URL ?? 'http://localhost:8080' },
    rounds: { type: 'string', default: '5000' },
  },
});
const rounds = Number(values.rounds);
const concurrent = 100;

const client = new Tidegate({ url: values.url, deadlineMs: 5_000 });

async function decide(user) {
  const started = performance.now();
  const decision = await client.check({ domain: 'apps', descriptor: { bench: user }, limits: '1000000/second' });
  if (!['memory', 'redis'].includes(decision.source)) throw new Error(`the service did not decide: ${decision.source}`);
  return (performance.now() - started) * 1_000;
}

function quantiles(micros) {
  const sorted = micros.sort((a, b) => a - b);
  const at = (share) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]);
  return { p50_us: at(0.5), p99_us: at(0.99) };
}

async function alone(count) {
  const micros = [];
  for (let round = 0; round < count; round += 1) micros.push(await decide(`user-${round % 1_000}`));
  return micros;
}

async function together(count) {
  const micros = [];
  for (let round = 0; round < count; round += 1) {
    micros.push(...(await Promise.all(Array.from({ length: concurrent }, (_, index) => decide(`user-${index}`)))));
  }
  return micros;
}

await alone(rounds / 5);
const single = quantiles(await alone(rounds));
await together(rounds / 500);
const started = performance.now();
const batched = quantiles(await together(rounds / 50));
const perSecond = Math.round(((rounds / 50) * concurrent) / ((performance.now() - started) / 1_000));
client.close();

const report = { rounds, alone: single, concurrent, together: { ...batched, decisions_per_s: perSecond } };
if (values.json) {
  console.log(JSON.stringify(report));
} else {
  console.log(`one alone:          p50 ${single.p50_us} µs, p99 ${single.p99_us} µs`);
  console.log(`${concurrent} at the same time: p50 ${batched.p50_us} µs, p99 ${batched.p99_us} µs, ${perSecond} decisions/s`);
}
