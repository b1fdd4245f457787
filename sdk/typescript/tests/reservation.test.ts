/** Reservations and permits as the contract has them, against a stub; service.test.ts has the real ones. */
import { describe, expect, test, vi } from 'vitest';

import { Tidegate } from '../src/client.js';
import { RateLimitExceeded, RefusedError, UnavailableError } from '../src/errors.js';
import { withPermit } from '../src/permit.js';
import { withReservation } from '../src/reservation.js';
import { closedAfterEach } from './support/open.js';
import { denying, NOWHERE, Stub, type Answering, type CheckBody } from './support/stub.js';
import { Told, until } from './support/until.js';

const open = closedAfterEach();

const GONE = { status: 410, body: '{"type":"about:blank","title":"Gone","status":410,"detail":"reserve again"}' };
const tokens = { descriptor: { user: 'ann' }, limits: '1000/minute', cost: 400 };
const limits = [{ rule: 'inline', name: 'minute', limit: 1_000, remaining: 600, reset_after_ms: 60_000, retry_after_ms: null, shadow: false }];

/** Reservations as the service keeps them: each is settled once. */
function bookkeeping(): Answering {
  const held = new Map<string, number>();
  return ({ path, body }) => {
    const asked = JSON.parse(body) as { id: string; cost: number };
    if (path === '/v1/reserve') {
      const id = `r${held.size}`;
      held.set(id, asked.cost);
      const reserved = { id, expires_at: '2030-01-01T00:00:00Z', allowed: true, decided_by: { rule: 'inline', name: 'minute' }, source: 'memory', limits };
      return { status: 200, headers: { ratelimit: '"inline:minute";r=600;t=60' }, body: JSON.stringify(reserved) };
    }
    const estimate = held.get(asked.id);
    if (estimate === undefined) return GONE;
    held.set(asked.id, NaN);
    return Number.isNaN(estimate) ? GONE : { status: 200, body: JSON.stringify({ estimate, cost: asked.cost, limits }) };
  };
}

async function clientOf(answer: Answering): Promise<{ client: Tidegate; asked: CheckBody[]; told: Told }> {
  const stub = await Stub.start(answer);
  const told = new Told();
  const client = new Tidegate({ url: stub.url, logger: told, deadlineMs: 20_000 });
  open.push(stub, client);
  return { client, asked: stub.asked, told };
}

const bodies = (asked: CheckBody[]): [string, unknown][] => asked.map(({ path, body }) => [path, JSON.parse(body)]);

describe('a reservation', () => {
  test('takes the estimate, and settles what it did cost', async () => {
    const { client, asked } = await clientOf(bookkeeping());
    const reservation = await client.reserve({ ...tokens, ttlMs: 5_000 });
    expect(reservation).toMatchObject({ allowed: true, id: 'r0', estimate: 400, expiresAt: new Date('2030-01-01T00:00:00Z') });
    expect(reservation.decision.headers).toEqual({ ratelimit: '"inline:minute";r=600;t=60' });
    expect(await reservation.settle(90)).toEqual({ estimate: 400, cost: 90, limits });
    expect(bodies(asked)).toEqual([
      ['/v1/reserve', expect.objectContaining({ domain: 'apps', cost: 400, ttl_ms: 5_000 })],
      ['/v1/settle', { id: 'r0', cost: 90 }],
    ]);
  });

  test('is settled once', async () => {
    const { client } = await clientOf(bookkeeping());
    const reservation = await client.reserve(tokens);
    await reservation.settle(1);
    await expect(reservation.settle(1)).rejects.toThrow('settled before');
  });

  test('that comes too late to be settled is an error with 410', async () => {
    const { client } = await clientOf(({ path, ...asked }) => (path === '/v1/settle' ? GONE : bookkeeping()({ path, ...asked })));
    const reservation = await client.reserve(tokens);
    await expect(reservation.settle(1)).rejects.toEqual(new RefusedError(410, 'reserve again'));
  });

  test('may be denied, and has nothing to settle then', async () => {
    const { client } = await clientOf(denying());
    const reservation = await client.reserve(tokens);
    expect(reservation).toMatchObject({ allowed: false, id: null, decision: { status: 429, retryAfter: 7 } });
    await expect(reservation.settle(1)).rejects.toThrow('cannot be settled');
  });

  test.each([-1, 0.5, NaN])('does not cost %d', async (cost) => {
    const { client } = await clientOf(bookkeeping());
    await expect((await client.reserve(tokens)).settle(cost)).rejects.toThrow('whole number');
  });

  test('without a service is kept in this process', async () => {
    const client = new Tidegate({ url: NOWHERE, logger: new Told() });
    open.push(client);
    const first = await client.reserve({ ...tokens, cost: 700 });
    expect(first).toMatchObject({ allowed: true, id: null, decision: { source: 'local' } });
    expect((await client.reserve({ ...tokens, cost: 700 })).allowed).toBe(false);
    await first.settle(100);
    expect((await client.reserve({ ...tokens, cost: 700 })).allowed).toBe(true);
    expect((await client.reserve({ ...tokens, cost: 201 })).allowed).toBe(false);
  });

  /** A service that takes reservations, and settles them once it is back. */
  async function returning(): Promise<{ client: Tidegate; told: Told; settled: number[]; back(): void }> {
    const kept = bookkeeping();
    const settled: number[] = [];
    let away = true;
    const { client, told } = await clientOf((asked) => {
      if (asked.path !== '/v1/settle') return kept(asked);
      if (away) return { status: 503, body: '' };
      settled.push((JSON.parse(asked.body) as { cost: number }).cost);
      return kept(asked);
    });
    return { client, told, settled, back: () => (away = false) };
  }

  test('that cannot be settled now is settled in the background', async () => {
    const { client, settled, back } = await returning();
    const reservation = await client.reserve(tokens);
    await expect(reservation.settle(90)).rejects.toBeInstanceOf(UnavailableError);
    back();
    await until('it is settled', () => settled.length > 0);
    // Whoever had not heard of it hears that it was, once.
    expect(await reservation.settle(90)).toMatchObject({ estimate: 400, cost: 90 });
    await expect(reservation.settle(90)).rejects.toThrow('settled before');
    expect(settled).toEqual([90]);
  });

  test('that was settled in the background is not settled for another cost', async () => {
    const { client, settled, back } = await returning();
    const reservation = await client.reserve(tokens);
    await expect(reservation.settle(90)).rejects.toBeInstanceOf(UnavailableError);
    back();
    await until('it is settled', () => settled.length > 0);
    await expect(reservation.settle(91)).rejects.toThrow('settled before');
    expect(settled).toEqual([90]);
  });

  test('that has expired is not tried any more', async () => {
    const { client, told, settled } = await returning();
    const reservation = await client.reserve({ ...tokens, ttlMs: 200 });
    await expect(reservation.settle(90)).rejects.toBeInstanceOf(UnavailableError);
    await until('it gives up', () => told.lines.some((line) => line.includes('expired before it was settled')));
    expect(settled).toEqual([]);
  });

  test('whose settlement arrived without its answer is let be', async () => {
    let lost = true;
    const kept = bookkeeping();
    const { client, told, asked } = await clientOf(async (one) => {
      const answer = await kept(one);
      if (one.path !== '/v1/settle' || !lost) return answer;
      lost = false;
      return { status: 504, body: '' };
    });
    const reservation = await client.reserve(tokens);
    await expect(reservation.settle(90)).rejects.toBeInstanceOf(UnavailableError);
    await until('it is told', () => told.lines.some((line) => line.includes('a reservation was settled before')));
    expect(asked.filter(({ path }) => path === '/v1/settle')).toHaveLength(2);
  });

  test('that cannot be settled now stays charged as estimated, and may be settled later', async () => {
    const kept = bookkeeping();
    let away = true;
    const { client } = await clientOf((asked) => (asked.path === '/v1/settle' && away ? { status: 503, body: '' } : kept(asked)));
    const reservation = await client.reserve(tokens);
    await expect(reservation.settle(1)).rejects.toBeInstanceOf(UnavailableError);
    away = false;
    expect(await reservation.settle(1)).toMatchObject({ cost: 1 });
    await expect(reservation.settle(1)).rejects.toThrow('settled before');
  });
});

describe('withReservation', () => {
  test('answers what the work answers', async () => {
    const { client, asked } = await clientOf(bookkeeping());
    const text = await withReservation(client, tokens, async (reservation) => {
      await reservation.settle(120);
      return 'text';
    });
    expect(text).toBe('text');
    expect(bodies(asked)[1]).toEqual(['/v1/settle', { id: 'r0', cost: 120 }]);
  });

  test('charges nothing for work that fails', async () => {
    const { client, asked } = await clientOf(bookkeeping());
    await expect(withReservation(client, tokens, () => Promise.reject(new Error('oh no')))).rejects.toThrow('oh no');
    expect(bodies(asked)[1]).toEqual(['/v1/settle', { id: 'r0', cost: 0 }]);
  });

  test('leaves the estimate charged if the work does not say what it cost', async () => {
    const { client, asked } = await clientOf(bookkeeping());
    await withReservation(client, tokens, () => 1);
    expect(asked).toHaveLength(1);
  });

  test('does not begin what is denied', async () => {
    const { client } = await clientOf(denying());
    const work = vi.fn();
    await expect(withReservation(client, tokens, work)).rejects.toBeInstanceOf(RateLimitExceeded);
    expect(work).not.toHaveBeenCalled();
  });

  test('does not give back what the work tried to settle in vain', async () => {
    const { client, asked } = await clientOf((one) => (one.path === '/v1/settle' ? { status: 503, body: '' } : bookkeeping()(one)));
    await expect(withReservation(client, tokens, (reservation) => reservation.settle(90))).rejects.toBeInstanceOf(UnavailableError);
    for (const sent of bodies(asked).slice(1)) expect(sent).toEqual(['/v1/settle', { id: 'r0', cost: 90 }]);
  });

  test('tells of the work, not of settling, if both fail', async () => {
    const { client, told } = await clientOf(({ path, ...asked }) => (path === '/v1/settle' ? GONE : bookkeeping()({ path, ...asked })));
    await expect(withReservation(client, tokens, () => Promise.reject(new Error('oh no')))).rejects.toThrow('oh no');
    expect(told.lines[0]).toContain('reserve again');
  });
});

describe('a permit', () => {
  const permit = (expires: number | null): string =>
    JSON.stringify({ permit: 'p1', expires_at: expires === null ? null : new Date(expires).toISOString() });
  const ann = { domain: 'shop', descriptor: { export: 'ann' } };

  test('is held while the work goes on, renewed, and given back', async () => {
    const renewed = new Set<string>();
    const { client, asked } = await clientOf(({ path }) => {
      if (path === '/v1/release') return { status: 204, body: '' };
      renewed.add(path);
      return { status: 200, body: permit(Date.now() + 300) };
    });
    await withPermit(client, ann, async () => {
      while (!renewed.has('/v1/renew')) await new Promise((resolve) => setTimeout(resolve, 5));
    });
    expect(asked[0]?.body).toBe('{"domain":"shop","descriptors":[{"entries":[{"key":"export","value":"ann"}]}]}');
    expect(asked.at(-1)).toMatchObject({ path: '/v1/release', body: '{"permit":"p1"}' });
  });

  test('is given back if the work fails, and once', async () => {
    const { client, asked } = await clientOf(({ path }) => (path === '/v1/release' ? { status: 204, body: '' } : { status: 200, body: permit(null) }));
    await expect(withPermit(client, ann, () => Promise.reject(new Error('oh no')))).rejects.toThrow('oh no');
    expect(asked.map(({ path }) => path)).toEqual(['/v1/acquire', '/v1/release']);
    const held = await client.acquire(ann);
    await held.release();
    await held.release();
    expect(asked).toHaveLength(4);
  });

  test('may be denied', async () => {
    const { client } = await clientOf(denying());
    await expect(withPermit(client, ann, () => 1)).rejects.toMatchObject({ decision: { status: 429 } });
    expect((await client.acquire(ann)).allowed).toBe(false);
  });

  test('that is lost is not renewed', async () => {
    const { client } = await clientOf(({ path }) =>
      path === '/v1/renew' ? { status: 404, body: '{"detail":"acquire a new one"}' } : { status: 200, body: permit(Date.now() + 60_000) },
    );
    expect(await (await client.acquire(ann)).renew()).toBe(false);
  });

  test('without a service is given, unless the fallback denies', async () => {
    const client = new Tidegate({ url: NOWHERE, logger: new Told(), localLimits: '0/minute' });
    open.push(client);
    const held = await client.acquire(ann);
    expect(held).toMatchObject({ allowed: true, expiresAt: null });
    expect(await held.renew()).toBe(true);
    await held.release();
    expect((await client.acquire(ann, { fallback: 'deny' })).allowed).toBe(false);
  });
});
