/** Waits and points in time as servers write them. What cannot be read is null. */

const DECIMAL = /^\d{1,15}(?:\.\d{1,9})?$/;
const DURATION = /^(?:\d{1,15}(?:\.\d{1,9})?(?:ms|[dhms]))+$/;
/** The three forms of a date in HTTP begin with a day; `Date.parse` alone takes much that is none. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? /i;
/** Where a date of HTTP says its zone; the form of asctime has none, and is in GMT. */
const ZONE = / (?:(?:GMT|UTC?|Z|[ECMP][SD]T)(?:[+-]\d\d:?\d\d)?|[+-]\d\d:?\d\d)\b/i;
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

/** Whether a time in GMT is on the day that it says: `Date.parse` makes 2 March of 30 February. */
function isOnDay(time: string, day: string | undefined): boolean {
  return new Date(time).getUTCDate() === Number(day);
}

function secondsUntil(momentMs: number, nowMs: number): number {
  return Math.max(0, tidy((momentMs - nowMs) / 1_000));
}

/** Without what arithmetic adds after the ninth digit. */
function tidy(seconds: number): number {
  return Math.round(seconds * 1e9) / 1e9;
}
