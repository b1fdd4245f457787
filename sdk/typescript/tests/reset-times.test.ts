/** Points in time as servers write them, read in a process that is far from Greenwich. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { resetAfterS, retryAfterS } from '../src/reset-times.js';

const before = process.env['TZ'];

beforeAll(() => {
  process.env['TZ'] = 'America/New_York';
  expect(new Date(2026, 0, 1).getTimezoneOffset(), 'the zone is in force').toBe(300);
});
afterAll(() => {
  if (before === undefined) delete process.env['TZ'];
  else process.env['TZ'] = before;
});

const NOW = Date.UTC(1994, 10, 6, 8, 49, 0);

test.each([
  ['Sun, 06 Nov 1994 08:49:37 GMT', 37],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 37],
  ['Sun Nov  6 08:49:37 1994', 37],
  ['Sun, 06 Nov 1994 08:49:37', 37],
  ['Sun, 06 Nov 1994 08:49:37 UTC', 37],
  ['Sun, 06 Nov 1994 03:49:37 -0500', 37],
  ['Sun, 06 Nov 1994 03:49:37 EST', 37],
  ['Sun Nov  6 03:49:37 EST 1994', 37],
  ['Sat, 05 Nov 1994 23:49:37 -0900', 37],
  ['1994-11-06T08:49:37Z', 37],
  ['1994-11-06 08:49:37.5z', 37.5],
  ['1994-11-05T23:49:37-09:00', 37],
  ['Sun Nov  6 08:48:00 1994', 0],
])('%s is %d s away, wherever the process runs', (text, seconds) => {
  expect(resetAfterS(text, NOW)).toBe(seconds);
  expect(retryAfterS(text, '', NOW)).toBe(seconds);
});

test.each([
  '2026-02-30T00:00:00Z',
  '2026-02-29T12:00:00+02:00',
  '2026-04-31 00:00:00Z',
  '2026-02-28T24:00:00Z',
  'Mon, 30 Feb 2026 00:00:00 GMT',
  'Monday, 30-Feb-26 00:00:00 GMT',
  'Mon Feb 30 00:00:00 2026',
  'Sun, 06 Nov 1994 08:49:37 CET',
  'Sun, noon',
])('%s is no time', (text) => {
  expect(resetAfterS(text, NOW)).toBeNull();
});

test('29 February is a day in a leap year', () => {
  const now = Date.UTC(2028, 1, 28);
  expect(['2028-02-29T00:00:00Z', 'Tue, 29 Feb 2028 00:00:00 GMT', 'Tue Feb 29 00:00:00 2028'].map((text) => resetAfterS(text, now))).toEqual([86_400, 86_400, 86_400]);
});
