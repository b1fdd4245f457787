/** Parses waits and points in time as servers write them. What cannot be parsed is null. */

const DECIMAL = /^\d{1,15}(?:\.\d{1,9})?$/;
const DURATION = /^(?:\d{1,15}(?:\.\d{1,9})?(?:ms|[dhms]))+$/;
/** The three forms of an HTTP date begin with a weekday; `Date.parse` by itself accepts much more. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? /i;
/** The time zone of an HTTP date; the form of asctime has none, and is in GMT. */
const ZONE = / (?:(?:GMT|UTC?|Z|[ECMP][SD]T)(?:[+-]\d\d:?\d\d)?|[+-]\d\d:?\d\d)\b/i;
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/;

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Numbers from these on are milliseconds or seconds since the epoch. */
const EPOCH_MS = 1e12;
const EPOCH_S = 1e9;

/** Returns the seconds until a reset, which is written as a number, a duration, or a point in time. */
export function resetAfterS(text: string, nowMs: number): number | null {
  const number = decimal(text);
  if (number === null) return durationS(text) ?? untilS(text, nowMs);
  if (number < EPOCH_S) return number;
  return secondsUntil(number >= EPOCH_MS ? number : number * 1_000, nowMs);
}

/** Returns the seconds of `retry-after-ms`, which is finer, or else of `Retry-After`. */
export function retryAfterS(seconds: string, milliseconds: string, nowMs: number): number | null {
  const fine = decimal(milliseconds);
  if (fine !== null) return fine / 1_000;
  return decimal(seconds) ?? untilS(seconds, nowMs);
}

function decimal(text: string): number | null {
  return DECIMAL.test(text) ? Number(text) : null;
}

/** Parses `1s`, `6m0s` or `120ms`. */
function durationS(text: string): number | null {
  if (!DURATION.test(text)) return null;
  let totalMs = 0;
  for (const [, number = '0', unit = 's'] of text.matchAll(/([\d.]+)(ms|[dhms])/g)) totalMs += Number(number) * (UNIT_MS[unit] ?? 0);
  return tidy(totalMs / 1_000);
}

/** Parses an HTTP date or an RFC 3339 time; returns the seconds until then, and 0 if it has passed. */
function untilS(text: string, nowMs: number): number | null {
  const moment = RFC_3339.test(text) ? rfc3339Ms(text) : HTTP_DATE.test(text) ? httpDateMs(text) : NaN;
  return Number.isNaN(moment) ? null : secondsUntil(moment, nowMs);
}

/** Returns milliseconds since the epoch; NaN if there is no such time. */
function rfc3339Ms(text: string): number {
  const readable = text.toUpperCase().replace(' ', 'T');
  return isOnDay(`${readable.slice(0, 19)}Z`, readable.slice(8, 10)) ? Date.parse(readable) : NaN;
}

/** Returns milliseconds since the epoch; NaN if there is no such time. */
function httpDateMs(text: string): number {
  const inGmt = `${text.replace(ZONE, '')} GMT`;
  // In each of the three forms the day is the first number.
  if (!isOnDay(inGmt, /\d+/.exec(text)?.[0])) return NaN;
  return Date.parse(ZONE.test(text) ? text : inGmt);
}

/** Returns whether a time in GMT is on the day that it names: `Date.parse` turns 30 February into 2 March. */
function isOnDay(time: string, day: string | undefined): boolean {
  return new Date(time).getUTCDate() === Number(day);
}

function secondsUntil(momentMs: number, nowMs: number): number {
  return Math.max(0, tidy((momentMs - nowMs) / 1_000));
}

/** Rounds to nine digits, to remove errors of floating-point arithmetic. */
function tidy(seconds: number): number {
  return Math.round(seconds * 1e9) / 1e9;
}
