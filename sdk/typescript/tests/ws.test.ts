/** WebSockets of the package `ws`, beside an Express app. */
import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

import express from 'express';
import { beforeEach, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';

import { Tidegate } from '../src/client.js';
import { rateLimit } from '../src/express.js';
import { resetScopes } from '../src/scope.js';
import { limitConnections, type ConnectionLimitOptions } from '../src/ws.js';
import { closedAfterEach } from './support/open.js';
import { denying, passing, Stub } from './support/stub.js';
import { Told } from './support/until.js';

const open = closedAfterEach();
let told: Told;

beforeEach(() => {
  resetScopes();
  told = new Told();
});

/** A server that echoes, with limits on its connections. */
async function serve(options: ConnectionLimitOptions, prepare: (app: ReturnType<typeof express>) => void = () => {}): Promise<string> {
  const app = express();
  prepare(app);
  const server = http.createServer(app);
  const wss = new WebSocketServer({ server });
  wss.on('connection', limitConnections<WebSocket>({ logger: told, ...options }, (socket) => {
    socket.on('message', (data) => socket.send(`echo ${String(data)}`));
  }));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({ close: () => new Promise((resolve) => { for (const one of wss.clients) one.terminate(); wss.close(); server.closeAllConnections(); server.close(resolve); }) });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Met {
  readonly code: number;
  readonly reason: string;
  readonly heard: string[];
}

/** Connects, says something at once, and tells how it ended: by the echo, or by the server. */
async function meet(place: string, path = '/', headers: Record<string, string> = {}): Promise<Met> {
  const socket = new WebSocket(`ws://${place}${path}`, { headers });
  const heard: string[] = [];
  socket.on('open', () => socket.send('hello'));
  socket.on('message', (data) => {
    heard.push(String(data));
    socket.close(1000, 'thanks');
  });
  const [code, reason] = (await once(socket, 'close')) as [number, Buffer];
  return { code, reason: String(reason), heard };
}

test('so many connections are accepted, and the others closed with 1008 and a reason', async () => {
  const place = await serve({ client: Tidegate.local(), limits: '3/minute' });
  const met: Met[] = [];
  for (let times = 0; times < 8; times += 1) met.push(await meet(place, `/rooms/${times}`));
  expect(met.map(({ code }) => code)).toEqual([1000, 1000, 1000, 1008, 1008, 1008, 1008, 1008]);
  expect(met[0]?.heard).toEqual(['echo hello']);
  expect(met[3]?.reason).toMatch(/^rate limit exceeded; retry in \d+ seconds$/);
  expect(met[3]?.heard).toEqual([]);
});

test('messages that come before the decision are not lost', async () => {
  let decide = (): void => {};
  const decided = new Promise<void>((resolve) => (decide = resolve));
  const stub = await Stub.start(async (asked) => {
    await decided;
    return passing()(asked);
  });
  const client = new Tidegate({ url: stub.url, deadlineMs: 20_000, logger: told });
  open.push(stub, client);
  const place = await serve({ client, limits: '3/minute' });
  const socket = new WebSocket(`ws://${place}/`);
  const heard: string[] = [];
  socket.on('message', (data) => heard.push(String(data)));
  await once(socket, 'open');
  for (const word of ['one', 'two', 'three']) await new Promise<void>((resolve) => socket.send(word, () => resolve()));
  decide();
  while (heard.length < 3) await once(socket, 'message');
  expect(heard).toEqual(['echo one', 'echo two', 'echo three']);
  socket.terminate();
});

test('a client that breaks the protocol after it was refused ends nothing', async () => {
  const stub = await Stub.start(denying());
  const client = new Tidegate({ url: stub.url, deadlineMs: 20_000, logger: told });
  open.push(stub, client);
  const place = await serve({ client, limits: '3/minute' });
  const [host, port] = place.split(':');
  const request = http.request({
    host, port, headers: { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' },
  });
  request.end();
  const [, socket] = (await once(request, 'upgrade')) as [unknown, import('node:net').Socket];
  socket.on('error', () => {});
  socket.resume();
  socket.write(Buffer.from([0xff, 0xff, 0x00, 0x01]));
  await once(socket, 'close');
  expect((await meet(place)).code).toBe(1008);
});

test('the app may return keys of clients, and limiters with the same name share their counters', async () => {
  const client = Tidegate.local();
  const key = (request: http.IncomingMessage): string | undefined => request.headers['x-user'] as string | undefined;
  const place = await serve({ client, name: 'chat', limits: '2/minute', key }, (app) => {
    app.use(rateLimit({ client, name: 'chat', limits: '2/minute', keyGenerator: (req) => req.get('x-user') }), (_req, res) => void res.send('hello'));
  });
  const ann = { 'x-user': 'ann' };
  expect((await meet(place, '/', ann)).code).toBe(1000);
  expect((await fetch(`http://${place}/`, { headers: ann })).status).toBe(200);
  expect((await meet(place, '/', ann)).code).toBe(1008);
  expect((await fetch(`http://${place}/`, { headers: ann })).status).toBe(429);
  expect((await meet(place, '/', { 'x-user': 'bob' })).code).toBe(1000);
});

test('a mistake of the app closes the connection with 1011, and is logged', async () => {
  const client = Tidegate.local({ logger: told });
  const place = await serve({ client, limits: '2/minute', key: () => 7 as unknown as string });
  expect(await meet(place)).toMatchObject({ code: 1011, reason: 'internal error' });
  expect(told.lines).toEqual([expect.stringContaining('must return a string')]);
});
