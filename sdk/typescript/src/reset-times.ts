/** Waits and points in time as servers write them. What cannot be read is null. */

const DECIMAL = /^\d{1,15}(?:\.\d{1,9})?$/;
const DURATION = /^(?:\d{1,15}(?:\.\d{1,9})?(?:ms|[dhms]))+$/;
/** The three forms of a date in HTTP begin with a day; `Date.parse` alone takes much that is none. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? /i;
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/;

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** From these on, a number is a moment in milliseconds or seconds since the epoch. */
const EPOCH_MS = 1e12;
const EPOCH_S = 1e9;

/** Returns the seconds until a reset, told as a number, a duration, or a point in time. */
export function resetAfterS(text: string, nowMs: number): number | null {
  const number = decimal(text);
  if (number === null) return durationS(text) ?? untilS(text, nowMs);
  if (number < EPOCH_S) return number;
  return secondsUntil(number >= EPOCH_MS ? number : number * 1_000, nowMs);
}

/** Returns `retry-after-ms` in seconds if it can be read, as it is finer, else `Retry-After`. */
export function retryAfterS(seconds: string, milliseconds: string, nowMs: number): number | null {
  const fine = decimal(milliseconds);
  if (fine !== null) return fine / 1_000;
  return decimal(seconds) ?? untilS(seconds, nowMs);
}

function decimal(text: string): number | null {
  return DECIMAL.test(text) ? Number(text) : null;
}

/** Reads `1s`, `6m0s` or `120ms`. */
function durationS(text: string): number | null {
  if (!DURATION.test(text)) return null;
  let totalMs = 0;
  for (const [, number = '0', unit = 's'] of text.matchAll(/([\d.]+)(ms|[dhms])/g)) totalMs += Number(number) * (UNIT_MS[unit] ?? 0);
  return tidy(totalMs / 1_000);
}

/** Reads a date of HTTP or a time of RFC 3339; one that has passed is 0 seconds away. */
function untilS(text: string, nowMs: number): number | null {
  const readable = RFC_3339.test(text) ? text.toUpperCase().replace(' ', 'T') : HTTP_DATE.test(text) ? text : '';
  const moment = readable === '' ? NaN : Date.parse(readable);
  return Number.isNaN(moment) ? null : secondsUntil(moment, nowMs);
}

function secondsUntil(momentMs: number, nowMs: number): number {
  return Math.max(0, tidy((momentMs - nowMs) / 1_000));
}

/** Without what arithmetic adds after the ninth digit. */
function tidy(seconds: number): number {
  return Math.round(seconds * 1e9) / 1e9;
}
