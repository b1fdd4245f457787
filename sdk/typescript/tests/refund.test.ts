/** Giving back: to the service, and while it is away to the counters of this process. */
import { describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import type { ClientOptions } from '../src/client-options.js';
import { closedAfterEach } from './support/open.js';
import { serviceForAll } from './support/service.js';
import { NOWHERE, passing, Stub, type StubReply } from './support/stub.js';
import { Told } from './support/until.js';

const service = serviceForAll();
const open = closedAfterEach();

function clientOf(url: string, options: ClientOptions = {}): Tidegate {
  const client = new Tidegate({ url, logger: new Told(), deadlineMs: 20_000, ...options });
  open.push(client);
  return client;
}

describe('a refund', () => {
  test('brings back what was taken, and never more', async () => {
    const client = clientOf(service.url);
    const request = { descriptor: { user: 'refunded' }, limits: '10/hour;100/day', cost: 10 };
    await client.check(request);
    expect((await client.check(request)).allowed).toBe(false);
    const left = await client.refund({ ...request, cost: 4 });
    expect(left.map(({ name, remaining }) => [name, remaining])).toEqual([['hour', 4], ['day', 94]]);
    expect((await client.refund(request)).map(({ remaining }) => remaining)).toEqual([10, 100]);
    expect((await client.check(request)).allowed).toBe(true);
  });

  test('that the service refuses is an error', async () => {
    const client = clientOf(service.url);
    const request = { domain: 'shop', descriptor: { user: 'ann' }, limits: '1/day' };
    await expect(client.refund(request)).rejects.toMatchObject({ status: 403 });
    await expect(client.refund({ descriptor: { user: 'ann' }, cost: -1 })).rejects.toThrow('-1');
  });

  test('without a service goes to the counters of this process', async () => {
    const client = clientOf(NOWHERE);
    // So long that no window ends meanwhile.
    const request = { descriptor: { user: 'ann' }, limits: '3/year' };
    expect((await client.check({ ...request, cost: 3 })).source).toBe('local');
    expect(await client.refund({ ...request, cost: 2 })).toEqual([]);
    const decisions = [await client.check(request), await client.check(request), await client.check(request)];
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    expect(await client.refund(request, { fallback: 'deny' })).toEqual([]);
    expect((await client.check(request)).allowed).toBe(false);
  });

  test.each([{ status: 200, body: '{}' }, { status: 200, body: '<html>' }, { status: 429, body: '{}' }, { status: 503, body: '{}' }])(
    'that is answered with %o is not answered',
    async (reply) => {
      const stub = await Stub.start(() => reply);
      open.push(stub);
      expect(await clientOf(stub.url).refund({ descriptor: { user: 'ann' } })).toEqual([]);
      expect(stub.asked.map(({ path }) => path)).toEqual(['/v1/refund']);
    },
  );

  test('is sent once, even if a kept connection ends before the answer', async () => {
    const stub = await Stub.start((asked) => (asked.path === '/v1/refund' ? 'drop' : passing()(asked)));
    open.push(stub);
    const client = clientOf(stub.url);
    expect((await client.check({ descriptor: { user: 'ann' } })).source).toBe('memory');
    expect(await client.refund({ descriptor: { user: 'ann' } })).toEqual([]);
    expect(stub.asked.map(({ path }) => path)).toEqual(['/v1/check', '/v1/refund']);
    expect(stub.connections).toBe(1);
  });

  test.each<[string, StubReply, ClientOptions]>([
    ['is too late', 'hang', { deadlineMs: 300 }],
    ['is lost', 'drop', {}],
    ['fails', { status: 503, body: '{}' }, {}],
    ['makes no sense', { status: 200, body: '{}' }, {}],
    ['refuses', { status: 403, body: '{}' }, {}],
  ])('whose answer %s is not given back in this process as well', async (_, reply, options) => {
    const stub = await Stub.start(({ path }) => (path === '/v1/refund' ? reply : { status: 503, body: '{}' }));
    open.push(stub);
    const client = clientOf(stub.url, options);
    const request = { descriptor: { user: 'ann' }, limits: '3/year' };
    expect(client.checkLocally({ ...request, cost: 3 })).toMatchObject({ allowed: true, source: 'local' });
    expect(await client.refund(request).catch((error: { status: number }) => error.status)).toEqual(
      typeof reply === 'object' && reply.status === 403 ? 403 : [],
    );
    expect(stub.asked.at(-1)?.path).toBe('/v1/refund');
    expect((await client.check(request)).allowed).toBe(false);
  });
});
