import { withoutBlanks } from './blanks.js';
import { TidegateError } from './errors.js';

/** How a limit counts; the service's documentation has a page on them. */
export type Algorithm =
  | 'fixed_window'
  | 'sliding_window'
  | 'sub_windows'
  | 'sliding_log'
  | 'token_bucket'
  | 'gcra'
  | 'leaky_bucket';

/** A limit that travels with a request, as the service takes it. */
export interface Limit {
  /** Units per window; 0 lets nothing pass. */
  readonly requests: number;
  /** `second`, `minute`, `hour`, `day`, `week`, `month`, `year`, or a duration such as `250ms`, `90s`, `1h30m`. */
  readonly per: string;
  /**
   * How it counts. Unless told: `token_bucket` if there is a `burst`, `sliding_log` for up to 10 requests,
   * which is exact, and `sliding_window` above.
   */
  readonly algorithm?: Algorithm;
  /** How many may come at once, for buckets. */
  readonly burst?: number;
  /** What it is called in headers; by default as its window. */
  readonly name?: string;
}

/** Units are 53 bits on the wire. */
const MOST = 2n ** 53n;

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;

/** Named windows. Those of a calendar are as long as the service tells them in `w`. */
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

/** Words that people write, without a final `s`. */
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
 * Reads limits as people write them.
 *
 * ```ts
 * parseLimits('10/minute; 200 per hour') // [{ requests: 10, per: 'minute' }, { requests: 200, per: 'hour' }]
 * ```
 *
 * @throws {TidegateError} if the text is no list of limits.
 */
export function parseLimits(text: string): Limit[] {
  return text.split(/[;,]/).map((part) => parseLimit(withoutBlanks(part).toLowerCase(), text));
}

function parseLimit(part: string, text: string): Limit {
  const refuse = (why: string): never => {
    throw new TidegateError(
      `${JSON.stringify(text)} is no list of limits: ${why}; write it like "10/minute" or "5/30s; 200 per hour"`,
    );
  };
  const found = LIMIT.exec(part);
  if (!found) return refuse(`${JSON.stringify(part)} is not COUNT/UNIT`);
  const [, digits = '', times, unit = ''] = found;
  const count = BigInt(digits.replaceAll('_', ''));
  if (count > MOST) return refuse('a count is at most 2^53');
  const requests = Number(count);
  if (unit === 'ms') {
    return times && BigInt(times) > 0n ? { requests, per: `${BigInt(times)}ms` } : refuse('ms needs a number before it');
  }
  const word = WORDS[unit] ?? WORDS[unit.replace(/s$/, '')];
  if (!word) return refuse(`${JSON.stringify(unit)} is no unit of time`);
  if (times === undefined) return { requests, per: word };
  if (BigInt(times) === 0n) return refuse('a window of 0 is none');
  if (word === 'month' || word === 'year') return refuse(`${word}s cannot be multiplied`);
  return { requests, per: `${BigInt(times)}${word[0]}` };
}

/** How long a window is; what `per` cannot be, is refused. */
export function windowMs(per: string): number {
  const named = NAMED_MS[per];
  if (named !== undefined) return named;
  if (!/^(?:\d+(?:ms|[smhdw]))+$/.test(per)) {
    throw new TidegateError(`${JSON.stringify(per)} is no window: write a unit such as "minute" or a duration such as "90s"`);
  }
  let total = 0;
  for (const [, number = '0', unit = 'ms'] of per.matchAll(/(\d+)(ms|[smhdw])/g)) {
    total += Number(number) * (SHORT_MS[unit] ?? 0);
  }
  return total;
}

/** The window of so many milliseconds, in its largest unit: 60000 is `minute`, 900000 is `15m`. */
export function perOf(milliseconds: number): string {
  if (!Number.isSafeInteger(milliseconds) || milliseconds < 1) {
    throw new TidegateError(`windowMs must be a whole number of milliseconds from 1 on, got ${milliseconds}`);
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

/** The window as the service writes it: `60s` is `minute`, and `2d` is `48h`. */
export function windowTitle(per: string): string {
  const milliseconds = windowMs(per);
  const named = Object.entries(NAMED_MS).find(([, length]) => length === milliseconds)?.[0];
  if (named !== undefined) return named;
  const unit = (['h', 'm', 's'] as const).find((one) => milliseconds % (SHORT_MS[one] ?? 1) === 0);
  return unit === undefined ? `${milliseconds}ms` : `${milliseconds / (SHORT_MS[unit] ?? 1)}${unit}`;
}

/** What a limit without a name may be called, the shortest first, as in the service. */
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
 * Returns what each limit of a list is called: its name, else its window with as many of its numbers as it
 * takes to tell it from the others: `minute`, `10/minute`, or `10/minute token_bucket burst 5`.
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

/** Limits as text or as they are. */
export function limitsOf(limits: string | readonly Limit[]): readonly Limit[] {
  return typeof limits === 'string' ? parseLimits(limits) : limits;
}
