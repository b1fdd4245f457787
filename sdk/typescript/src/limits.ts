import { trimBlanks } from './blanks.js';
import { TidegateError } from './errors.js';

/** How a limit counts; the documentation of the service describes the algorithms. */
export type Algorithm =
  | 'fixed_window'
  | 'sliding_window'
  | 'sub_windows'
  | 'sliding_log'
  | 'token_bucket'
  | 'gcra'
  | 'leaky_bucket';

/**
 * A limit in code, with more than the text `"100/minute"` can express.
 *
 * ```ts
 * const steady: Limit = { requests: 100, per: 'minute', burst: 20, name: 'steady' };
 * ```
 */
export interface Limit {
  /** Units per window; 0 denies every request. */
  readonly requests: number;
  /** `second`, `minute`, `hour`, `day`, `week`, `month`, `year`, or a duration such as `250ms`, `90s`, `1h30m`. */
  readonly per: string;
  /**
   * How it counts. Default: `token_bucket` if there is a `burst`, else `sliding_log`, which is exact, for up to 10
   * requests, and `sliding_window` above.
   */
  readonly algorithm?: Algorithm;
  /** Units that may pass at once; only for `token_bucket`, `gcra` and `leaky_bucket`. */
  readonly burst?: number;
  /** The name in headers and decisions; a limit with a name keeps its counter when its numbers change. Default: the window. */
  readonly name?: string;
}

/** The largest count that the service accepts. */
const MAX = 2n ** 53n;

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;

/** The lengths of named windows; months and years have the nominal length that the service reports. */
const NAMED_MS: Readonly<Record<string, number>> = {
  second: SECOND_MS,
  minute: 60 * SECOND_MS,
  hour: 3_600 * SECOND_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
  year: 365 * DAY_MS,
};

const SHORT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: SECOND_MS,
  m: 60 * SECOND_MS,
  h: 3_600 * SECOND_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
};

/** Units as people write them, without a final `s`. */
const WORDS: Readonly<Record<string, string>> = {
  second: 'second', sec: 'second', s: 'second',
  minute: 'minute', min: 'minute', m: 'minute',
  hour: 'hour', hr: 'hour', h: 'hour',
  day: 'day', d: 'day',
  week: 'week', w: 'week',
  month: 'month',
  year: 'year',
};

const LIMIT = /^(\d[\d_]*)[ \t]*(?:\/|per)[ \t]*(?:(\d+)[ \t]*)?([a-z]+)$/;

/**
 * Returns the limits in a text. The syntax is `COUNT/UNIT` or `COUNT per UNIT`, several joined by `;` or `,`.
 *
 * ```ts
 * parseLimits('10/minute; 200 per hour') // [{ requests: 10, per: 'minute' }, { requests: 200, per: 'hour' }]
 * ```
 *
 * @throws {TidegateError} if the text cannot be parsed.
 */
export function parseLimits(text: string): Limit[] {
  return text.split(/[;,]/).map((part) => parseLimit(trimBlanks(part).toLowerCase(), text));
}

function parseLimit(part: string, text: string): Limit {
  const refuse = (why: string): never => {
    throw new TidegateError(
      `${JSON.stringify(text)} is not a valid list of limits: ${why}; write it like "10/minute" or "5/30s; 200 per hour"`,
    );
  };
  const found = LIMIT.exec(part);
  if (!found) return refuse(`${JSON.stringify(part)} is not COUNT/UNIT`);
  const [, digits = '', times, unit = ''] = found;
  const count = BigInt(digits.replaceAll('_', ''));
  if (count > MAX) return refuse('a count is at most 2^53');
  const requests = Number(count);
  if (unit === 'ms') {
    return times && BigInt(times) > 0n ? { requests, per: `${BigInt(times)}ms` } : refuse('ms needs a number before it');
  }
  const word = WORDS[unit] ?? WORDS[unit.replace(/s$/, '')];
  if (!word) return refuse(`${JSON.stringify(unit)} is not a unit of time`);
  if (times === undefined) return { requests, per: word };
  if (BigInt(times) === 0n) return refuse('the window must not be 0');
  if (word === 'month' || word === 'year') return refuse(`a multiple of a ${word} has no fixed length`);
  return { requests, per: `${BigInt(times)}${word[0]}` };
}

/** Returns the length of a window in milliseconds; throws if it is not a valid one. */
export function windowMs(per: string): number {
  const named = NAMED_MS[per];
  if (named !== undefined) return named;
  if (!/^(?:\d+(?:ms|[smhdw]))+$/.test(per)) {
    throw new TidegateError(`${JSON.stringify(per)} is not a valid window: write a unit such as "minute" or a duration such as "90s"`);
  }
  let total = 0;
  for (const [, number = '0', unit = 'ms'] of per.matchAll(/(\d+)(ms|[smhdw])/g)) {
    total += Number(number) * (SHORT_MS[unit] ?? 0);
  }
  return total;
}

/** Returns a window in its largest unit: 60000 ms is `minute`, 900000 ms is `15m`. */
export function perOf(milliseconds: number): string {
  if (!Number.isSafeInteger(milliseconds) || milliseconds < 1) {
    throw new TidegateError(`windowMs must be a whole number of milliseconds, 1 or more, got ${milliseconds}`);
  }
  for (const word of ['week', 'day', 'hour', 'minute', 'second'] as const) {
    if (milliseconds === NAMED_MS[word]) return word;
  }
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    const length = SHORT_MS[unit] ?? 1;
    if (milliseconds % length === 0) return `${milliseconds / length}${unit}`;
  }
  return `${milliseconds}ms`;
}

/** Returns a window as the service writes it: `60s` is `minute`, and `2d` is `48h`. */
export function windowTitle(per: string): string {
  const milliseconds = windowMs(per);
  const named = Object.entries(NAMED_MS).find(([, length]) => length === milliseconds)?.[0];
  if (named !== undefined) return named;
  const unit = (['h', 'm', 's'] as const).find((one) => milliseconds % (SHORT_MS[one] ?? 1) === 0);
  return unit === undefined ? `${milliseconds}ms` : `${milliseconds / (SHORT_MS[unit] ?? 1)}${unit}`;
}

/** Names that a limit without a name may get, the shortest first, as in the service. */
const TITLES: readonly ((limit: Limit) => string)[] = [
  ({ per }) => windowTitle(per),
  ({ requests, per }) => `${requests}/${windowTitle(per)}`,
  ({ requests, per, algorithm, burst }) => {
    const written = algorithm ?? (burst === undefined ? 'default' : 'token_bucket');
    const name = written === 'gcra' ? 'token_bucket' : written;
    return `${requests}/${windowTitle(per)} ${name}${burst === undefined ? '' : ` burst ${burst}`}`;
  },
];

/**
 * Returns the names of the limits of a list in decisions. A limit without a name is named by its window, with as many of
 * its numbers as distinguish it from the others: `minute`, `10/minute`, or `10/minute token_bucket burst 5`.
 */
export function titlesOf(limits: readonly Limit[]): string[] {
  const found: (string | undefined)[] = limits.map(({ name }) => name);
  for (const title of TITLES) {
    if (!found.includes(undefined)) break;
    const titles = limits.map((limit) => limit.name ?? title(limit));
    for (const [index, own] of titles.entries()) {
      if (titles.indexOf(own) === titles.lastIndexOf(own)) found[index] ??= own;
    }
  }
  return limits.map(({ requests, per }, index) => found[index] ?? `${requests}/${windowTitle(per)} (${index + 1})`);
}

/** Returns a list of limits, which may be written as a text. */
export function limitsOf(limits: string | readonly Limit[]): readonly Limit[] {
  return typeof limits === 'string' ? parseLimits(limits) : limits;
}
