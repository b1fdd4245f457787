import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Batcher } from '../src/batch.js';
import type { ServiceResponse } from '../src/decision.js';
import { RefusedError, UnavailableError } from '../src/errors.js';

interface Sent {
  readonly body: string;
  readonly timeoutMs: number;
  answer(answer: ServiceResponse): void;
  fail(error: Error): void;
}

let sent: Sent[];
let batcher: Batcher;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  batcher = new Batcher({
    maxInFlight: 2,
    send: (body, timeoutMs) =>
      new Promise((resolve, reject) => sent.push({ body, timeoutMs, answer: resolve, fail: reject })),
  });
});
afterEach(() => vi.useRealTimers());

/** Lets everything run that does not wait for a timer. */
const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

function answerAll({ body, answer }: Sent): void {
  const asked: unknown = JSON.parse(body);
  if (!Array.isArray(asked)) answer({ status: 200, headers: {}, text: `answer to ${JSON.stringify(asked)}` });
  else answer({ status: 200, headers: {}, text: `[${asked.map((one) => `{"status":200,"headers":{},"body":"answer to ${String(one)}"}`).join()}]` });
}

test('one check is sent alone, as it is', async () => {
  const answer = batcher.check('1', 100);
  await settle();
  expect(sent.map(({ body }) => body)).toEqual(['1']);
  answerAll(sent[0] as Sent);
  expect((await answer).text).toBe('answer to 1');
});

test('checks of one tick are one batch, and each gets its own answer', async () => {
  const answers = [1, 2, 3].map((one) => batcher.check(String(one), 100));
  await settle();
  expect(sent.map(({ body }) => body)).toEqual(['[1,2,3]']);
  answerAll(sent[0] as Sent);
  expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(['"answer to 1"', '"answer to 2"', '"answer to 3"']);
});

test('while two are under way others gather', async () => {
  for (const one of ['1', '2', '3', '4', '5']) {
    void batcher.check(one, 100);
    await settle();
  }
  expect(sent.map(({ body }) => body)).toEqual(['1', '2']);
  answerAll(sent[0] as Sent);
  await settle();
  expect(sent.map(({ body }) => body)).toEqual(['1', '2', '[3,4,5]']);
});

test('a batch has at most a thousand checks, and the rest goes beside it', async () => {
  for (let one = 0; one < 1_500; one += 1) void batcher.check('1', 100);
  await settle();
  expect(sent.map(({ body }) => (JSON.parse(body) as unknown[]).length)).toEqual([1_000, 500]);
});

test('a batch is no longer than the service takes', async () => {
  const long = JSON.stringify('x'.repeat(100_000));
  for (let one = 0; one < 3; one += 1) void batcher.check(long, 100);
  await settle();
  expect(sent.map(({ body }) => body.length < 256 * 1024)).toEqual([true, true]);
});

test('each check has its own deadline, whichever batch it is in', async () => {
  const early = batcher.check('1', 100).catch((error: unknown) => error);
  const late = batcher.check('2', 200);
  await settle();
  expect(sent[0]?.timeoutMs).toBe(200);
  await vi.advanceTimersByTimeAsync(150);
  expect(await early).toMatchObject({ reason: 'timeout' });
  answerAll(sent[0] as Sent);
  expect((await late).text).toBe('"answer to 2"');
});

test('what is too late before it was sent is not sent any more', async () => {
  for (const one of ['1', '2']) {
    void batcher.check(one, 1_000);
    await settle();
  }
  const early = batcher.check('3', 100).catch((error: unknown) => error);
  const late = batcher.check('4', 1_000);
  await vi.advanceTimersByTimeAsync(150);
  expect(await early).toBeInstanceOf(UnavailableError);
  answerAll(sent[0] as Sent);
  await settle();
  expect(sent[2]?.body).toBe('4');
  answerAll(sent[2] as Sent);
  await late;
});

test('one that is refused does not take the others with it', async () => {
  const answers = [1, 2, 3, 4].map((one) => batcher.check(String(one), 100).then(({ text }) => text));
  await settle();
  sent[0]?.answer({ status: 400, headers: {}, text: '{"detail":"3 is broken"}' });
  await settle();
  expect(sent.map(({ body }) => body)).toEqual(['[1,2,3,4]', '[1,2]', '[3,4]']);
  answerAll(sent[1] as Sent);
  sent[2]?.answer({ status: 413, headers: {}, text: '{}' });
  await settle();
  expect(sent.slice(3).map(({ body }) => body)).toEqual(['3', '4']);
  sent[3]?.answer({ status: 400, headers: {}, text: '{"detail":"3 is broken"}' });
  answerAll(sent[4] as Sent);
  expect(await Promise.all(answers)).toEqual(['"answer to 1"', '"answer to 2"', '{"detail":"3 is broken"}', 'answer to 4']);
});

test.each([
  [{ status: 401, headers: {}, text: '{"detail":"who are you?"}' }, RefusedError],
  [{ status: 503, headers: {}, text: '' }, UnavailableError],
  [{ status: 200, headers: {}, text: 'hello' }, UnavailableError],
  [{ status: 200, headers: {}, text: '[]' }, UnavailableError],
  [{ status: 200, headers: {}, text: '[1,2]' }, UnavailableError],
])('an answer to the whole is an answer to each: %j', async (answer, kind) => {
  const answers = [1, 2].map((one) => batcher.check(String(one), 100).catch((error: unknown) => error));
  await settle();
  sent[0]?.answer(answer);
  for (const error of await Promise.all(answers)) expect(error).toBeInstanceOf(kind);
});

test('a failure frees the way for those that wait', async () => {
  for (const one of ['1', '2', '3']) {
    batcher.check(one, 100).catch(() => {});
    await settle();
  }
  sent[0]?.fail(new UnavailableError('connection', 'gone'));
  await settle();
  expect(sent.map(({ body }) => body)).toEqual(['1', '2', '3']);
});

test('the queue has a bound', async () => {
  for (const one of ['1', '2']) {
    void batcher.check(one, 100);
    await settle();
  }
  for (let one = 0; one < 10_000; one += 1) batcher.check('3', 100).catch(() => {});
  await expect(batcher.check('4', 100)).rejects.toMatchObject({ reason: 'overload' });
});
