/** The runs of `vectors/pacing.json`: how fast a client gets through a limit, and how often it is denied. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { pacedFetch } from '../src/pacing.js';
import { LimitedServer, type ServerCase } from './support/limited-server.js';
import { vectorsOf } from './support/vectors.js';

interface Run {
  readonly name: string;
  readonly server: ServerCase;
  readonly requests: number;
  readonly concurrent: number;
  readonly round_trip_ms: number;
  readonly expect: { readonly most_s: number; readonly most_denials: number };
}

const START = 1_700_000_000_000;

beforeEach(() => {
  vi.useFakeTimers({ now: START });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Numbers from 0 to below 1 that look random and are the same in each run. */
function randomly(): () => number {
  let state = 1;
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32;
}

/** Returns when the last request passed, and how many were denied. With jitter, answers overtake each other. */
async function take(run: Run, jitter = 0): Promise<{ tookS: number; denials: number }> {
  const server = new LimitedServer(run.server);
  const random = randomly();
  const half = (): Promise<void> =>
    new Promise((resolve) => setTimeout(resolve, (run.round_trip_ms / 2) * (1 + jitter * random())));
  const fetch = pacedFetch({
    deadlineMs: 60_000,
    random: () => 0.5,
    fetch: async () => {
      await half();
      const answer = server.answer((Date.now() - START) / 1_000);
      await half();
      return answer;
    },
  });
  let left = run.requests;
  let lastAt = 0;
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      expect((await fetch('http://api.example/')).status).toBe(200);
      lastAt = Date.now();
    }
  };
  const all = Promise.all(Array.from({ length: run.concurrent }, worker));
  all.catch(() => {});
  await vi.advanceTimersByTimeAsync(120_000);
  await all;
  return { tookS: (lastAt - START) / 1_000, denials: server.denials };
}

const runs = vectorsOf<{ runs: Run[] }>('pacing').runs;

describe('a client gets through a limit nearly as fast as it allows', () => {
  test.each(runs)('$name', async (run) => {
    const { tookS, denials } = await take(run);
    expect(tookS).toBeLessThanOrEqual(run.expect.most_s);
    expect(denials).toBeLessThanOrEqual(run.expect.most_denials);
  });
});

describe('it is not misled by answers that overtake each other', () => {
  test.each(runs.filter(({ concurrent }) => concurrent > 1))('$name', async (run) => {
    const { tookS, denials } = await take(run, 0.4);
    expect(tookS).toBeLessThanOrEqual(run.expect.most_s);
    expect(denials).toBeLessThanOrEqual(run.expect.most_denials);
  });
});
