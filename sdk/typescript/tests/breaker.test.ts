import { beforeEach, expect, test } from 'vitest';

import { Breaker, type Attempt } from '../src/breaker.js';

let now: number;
let random: number;
let breaker: Breaker;
let changes: string[];

beforeEach(() => {
  now = 1_000;
  random = 1 - 1e-9;
  changes = [];
  breaker = new Breaker({
    now: () => now,
    random: () => random,
    onOpen: () => changes.push('open'),
    onClose: () => changes.push('close'),
  });
});

function admitted(): Attempt {
  const attempt = breaker.admit();
  if (!attempt) throw new Error('nobody may send');
  return attempt;
}

test('all may send while nothing is wrong', () => {
  for (let times = 0; times < 3; times += 1) admitted();
  expect(breaker.closed).toBe(true);
});

test('after a failure no request is sent until the wait is over, then a single one', () => {
  breaker.failed(admitted());
  expect(breaker.admit()).toBeUndefined();
  now += 49;
  expect(breaker.admit()).toBeUndefined();
  now += 2;
  admitted();
  expect(breaker.admit()).toBeUndefined();
});

test('waits double from 50 ms to 5 s', () => {
  const waits: number[] = [];
  breaker.failed(admitted());
  for (let times = 0; times < 10; times += 1) {
    const from = now;
    let attempt: Attempt | undefined;
    while (!(attempt = breaker.admit())) now += 1;
    waits.push(now - from);
    breaker.failed(attempt);
  }
  expect(waits).toEqual([50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
});

test('a wait is drawn evenly from nothing to the longest', () => {
  random = 0.5;
  breaker.failed(admitted());
  now += 24;
  expect(breaker.admit()).toBeUndefined();
  now += 1;
  admitted();
});

test('an answer lets all send again, and the next wait is short', () => {
  breaker.failed(admitted());
  now += 50;
  breaker.failed(admitted());
  now += 100;
  breaker.succeeded(admitted());
  expect(breaker.closed).toBe(true);
  breaker.failed(admitted());
  now += 50;
  admitted();
  expect(changes).toEqual(['open', 'close', 'open']);
});

test('many that were under way as it went down are one failure', () => {
  const attempts = [admitted(), admitted(), admitted()];
  for (const attempt of attempts) breaker.failed(attempt);
  now += 50;
  admitted();
  expect(changes).toEqual(['open']);
});

test('a late failure of one that was sent before does not end a probe', () => {
  const [first, second] = [admitted(), admitted()];
  breaker.failed(first);
  now += 50;
  const probe = admitted();
  breaker.failed(second);
  expect(breaker.admit()).toBeUndefined();
  breaker.succeeded(probe);
  expect(breaker.closed).toBe(true);
});
