import { afterEach, beforeEach, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { ClientIpFinder } from '../src/client-ip.js';
import { Limiter } from '../src/limiter.js';
import { parseLimits } from '../src/limits.js';
import { resetScopes } from '../src/scope.js';
import { denying, passing, Stub } from './support/stub.js';

let stub: Stub;
let client: Tidegate;

beforeEach(async () => {
  stub = await Stub.start(passing());
  client = new Tidegate({ url: stub.url, deadlineMs: 20_000 });
});
afterEach(async () => {
  client.close();
  await stub.close();
});

const request = { method: 'GET', path: '/a', peer: '203.0.113.7', headers: {} };

test('a request that passes gets headers, and no content type', async () => {
  const outcome = await new Limiter({ client, limits: '10/minute' }).decide(request);
  expect(outcome).toMatchObject({ kind: 'pass', key: '203.0.113.7', decision: { allowed: true } });
  expect(outcome.kind === 'pass' && outcome.headers[0]).toEqual(['ratelimit-policy', '"inline:minute";q=10;w=60']);
});

test('one that does not has its whole answer', async () => {
  stub.answer = denying();
  const outcome = await new Limiter({ client, limits: '10/minute' }).decide(request);
  expect(outcome).toMatchObject({ kind: 'deny', status: 429, body: expect.stringContaining('quota-exceeded') as string });
  expect(outcome.kind === 'deny' && Object.fromEntries(outcome.headers)).toMatchObject({
    'content-type': 'application/problem+json',
    'retry-after': '7',
  });
});

test('what is limited is as named, else the template, else the limiter, and never the path', async () => {
  resetScopes();
  const limiter = new Limiter({ client, limits: '10/minute' });
  await limiter.decide(request);
  await limiter.decide({ ...request, path: '/b' });
  await limiter.decide({ ...request, template: 'GET /:letter' });
  await new Limiter({ client, limits: '10/minute', name: 'all' }).decide({ ...request, template: 'GET /:letter' });
  const routes = stub.asked.map(({ body }) => /"route","value":"([^"]*)"/.exec(body)?.[1]);
  expect(routes).toEqual(['limiter', 'limiter', 'GET /:letter', 'all']);
});

test('every value goes to the service as it takes them', async () => {
  const odd = 'a\n\ud800';
  await new Limiter({ client, limits: '10/minute', name: odd, key: () => odd }).decide(request);
  for (const one of [{ user: odd }, [['user', odd]] as const, { entries: [{ key: 'user', value: odd }], cost: 2 ** 60 }]) {
    await new Limiter({ client, domain: 'shop', descriptors: () => [one], cost: Infinity }).decide(request);
  }
  const sent = stub.asked.map(({ body }) => JSON.parse(body) as { cost: number; descriptors: { cost?: number; entries: { value: string }[] }[] });
  const values = sent.flatMap(({ descriptors }) => descriptors.flatMap(({ entries }) => entries.map(({ value }) => value)));
  expect(values).toEqual(Array.from({ length: 5 }, () => 'a%0A\ufffd'));
  expect(sent.map(({ cost }) => cost)).toEqual([1, 2 ** 53, 2 ** 53, 2 ** 53]);
  expect(sent[3]?.descriptors[0]?.cost).toBe(2 ** 53);
});

test.each([-1, 0.5, NaN])('a cost of %d is a mistake of the app', async (cost) => {
  await expect(new Limiter({ client, limits: '10/minute', cost }).decide(request)).rejects.toThrow('whole number');
  const own = { entries: [{ key: 'user', value: 'ann' }], cost };
  await expect(new Limiter({ client, descriptors: [own] }).decide(request)).rejects.toThrow('whole number');
});

test('an empty key stands for the address', async () => {
  const outcome = await new Limiter({ client, limits: '10/minute', key: () => '' }).decide(request);
  expect(outcome).toMatchObject({ key: '203.0.113.7' });
});

test('it limits something, either by limits or by rules', () => {
  expect(() => new Limiter({ client })).toThrow('needs either limits');
  expect(() => new Limiter({ client, limits: '1/minute', descriptors: [] })).toThrow('needs either limits');
});

test('limiters of one service share a client', () => {
  const one = new Limiter({ limits: '1/minute', url: stub.url });
  const same = new Limiter({ limits: '2/minute', url: stub.url });
  const other = new Limiter({ limits: '1/minute', url: stub.url, token: 'secret' });
  expect(one.client).toBe(same.client);
  expect(one.client).not.toBe(other.client);
  for (const { client: shared } of [one, other]) shared.close();
});

test.each(['\u00a0', '\u2003', '\ufeff', '\v', '\r', '\n'])('%j is no space, neither around an address nor in a limit', (odd) => {
  const peer = '10.0.0.1';
  for (const text of [`${odd}198.51.100.7`, `198.51.100.7${odd}`]) {
    const listed = new ClientIpFinder({ trustedProxies: ['10.0.0.0/8'] });
    expect(listed.find(peer, { 'x-forwarded-for': text }).ip).toBe(peer);
    expect(listed.find(peer, { 'x-forwarded-for': `198.51.100.7, ${odd}` }).ip).toBe(peer);
    const forwarded = new ClientIpFinder({ trustedProxies: ['10.0.0.0/8'], header: 'forwarded' });
    expect(forwarded.find(peer, { forwarded: `for=${text}` }).ip).toBe(peer);
    expect(forwarded.find(peer, { forwarded: `${odd}for=198.51.100.7` }).ip).toBe(peer);
    expect(() => new ClientIpFinder({ trustedProxies: [`${text}/32`] })).toThrow('is not a network');
  }
  for (const text of [`${odd}1/minute`, `1/minute${odd}`, `1${odd}per minute`, `1/${odd}minute`, `1/5${odd}minutes`]) {
    expect(() => parseLimits(text)).toThrow('is not a valid list of limits');
  }
  const blanks = new ClientIpFinder({ trustedProxies: [' 10.0.0.0/8\t'], header: 'forwarded' });
  expect(blanks.find(peer, { forwarded: '\t for\t=\t198.51.100.7 \t' }).ip).toBe('198.51.100.7');
  expect(parseLimits('\t1 / \tminute ')).toEqual([{ requests: 1, per: 'minute' }]);
});

test('a header that is made to be slow is not', () => {
  const finder = new ClientIpFinder({ trustedProxies: ['10.0.0.0/8'], header: 'forwarded' });
  const spaces = ' '.repeat(100_000);
  // Hours, if the time grew with the square of the length.
  for (const value of [`for=${spaces}x${spaces}`, `${spaces}for${spaces}=${spaces}`, '"'.repeat(99_999), ',;='.repeat(33_333)]) {
    for (let times = 0; times < 20; times += 1) expect(finder.find('10.0.0.1', { forwarded: value }).ip).toBe('10.0.0.1');
  }
});
