/** Which counter a limit in code is charged to: `vectors/identity.json`, which all languages are held to. */
import express from 'express';
import { beforeEach, describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { checkBodyOf, type CheckBody } from '../src/descriptor.js';
import { rateLimit } from '../src/express.js';
import { localCharges } from '../src/fallback.js';
import { Limiter } from '../src/limiter.js';
import type { Limit } from '../src/limits.js';
import { resetScopes } from '../src/scope.js';
import { resetWarnings } from '../src/warnings.js';
import { Running } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { passing, Stub } from './support/stub.js';
import { vectors } from './support/vectors.js';

interface Ask {
  readonly limiter: number;
  readonly path: string;
  readonly client: string;
  readonly template?: string;
  readonly identifier?: string;
  readonly sent: { readonly entries: [string, string][]; readonly limits: Limit[] };
  readonly counters: string[];
}

interface IdentityCase {
  readonly name: string;
  readonly limiters: readonly { readonly name?: string; readonly limits: string | Limit[] }[];
  readonly asks: readonly Ask[];
}

const cases = vectors<IdentityCase>('identity');
const open = closedAfterEach();
let stub: Stub;
let client: Tidegate;

beforeEach(async () => {
  resetWarnings();
  resetScopes();
  stub = await Stub.start(passing());
  client = new Tidegate({ url: stub.url, deadlineMs: 20_000 });
  open.push(stub, client);
});

const QUIET = { validate: false } as const;

/** Holds what was sent, and the counters of this process, to a case. */
function hold(one: IdentityCase, asks: readonly Ask[]): void {
  const bodies = stub.asked.map(({ body }) => JSON.parse(body) as CheckBody);
  expect(bodies).toHaveLength(asks.length);
  const keys = new Map<string, string>();
  for (const [index, ask] of asks.entries()) {
    const asked = bodies[index] as CheckBody;
    expect(asked.descriptors, one.name).toEqual([
      { entries: ask.sent.entries.map(([key, value]) => ({ key, value })), limits: ask.sent.limits },
    ]);
    const charges = localCharges(checkBodyOf({ ...asked, descriptors: asked.descriptors }), undefined);
    for (const [at, { key }] of charges.entries()) {
      const counter = ask.counters[at] as string;
      expect(keys.get(counter) ?? key, `${counter} is one counter`).toBe(key);
      keys.set(counter, key);
    }
  }
  expect(new Set(keys.values()).size, 'different names are different counters').toBe(keys.size);
}

describe('a limiter', () => {
  test.each(cases)('$name', async (one) => {
    const limiters = one.limiters.map(
      (options) => new Limiter<{ client: string; identifier?: string }>({
        ...QUIET,
        ...options,
        client,
        key: (context) => context.client,
        ...(one.asks.some(({ identifier }) => identifier) && { identifier: (context: { identifier?: string }) => context.identifier ?? '' }),
      }),
    );
    for (const ask of one.asks) {
      const { path, template } = ask;
      const request = { method: 'GET', path, peer: '192.0.2.1', headers: {}, ...(template === undefined ? {} : { template }) };
      await limiters[ask.limiter]?.decide(request, ask);
    }
    hold(one, one.asks);
  });
});

describe('a limiter of Express, which knows no template', () => {
  const untold = cases.filter(({ asks, limiters }) => asks.every(({ template, limiter }) => template === undefined || limiters[limiter]?.name !== undefined));

  test.each(untold)('$name', async (one) => {
    const app = express();
    const labelled = one.asks.some(({ identifier }) => identifier !== undefined);
    for (const [index, { name, limits }] of one.limiters.entries()) {
      const middleware = rateLimit({
        ...QUIET,
        client,
        ...(name === undefined ? {} : { name }),
        keyGenerator: (req) => req.get('x-client'),
        // Only a limit that is given by its window can have a label.
        ...(labelled
          ? { windowMs: 60_000, limit: Number((limits as string).split('/')[0]), identifier: (req) => req.get('x-label') ?? '' }
          : { limits }),
      });
      app.use(`/${index}`, middleware, (_req, res) => void res.send('hello'));
    }
    const running = await Running.start(app);
    open.push(running);
    for (const { limiter, path, client: user, identifier } of one.asks) {
      await running.get(`/${limiter}${path}`, { headers: { 'x-client': user, ...(identifier === undefined ? {} : { 'x-label': identifier }) } });
    }
    hold(one, one.asks);
  });
});
