import { trimBlanks } from './blanks.js';
import { linesOf, type HeaderSource } from './client-ip.js';
import { resetAfterS, retryAfterS as readRetryAfterS } from './reset-times.js';
import { namedItems, type NamedItem } from './structured-field.js';

/** One of the limits that a response reports; null is what it does not report. */
export interface LearnedPolicy {
  readonly name: string;
  /** Units per window. */
  readonly limit: number | null;
  /** Seconds per window. */
  readonly windowS: number | null;
  /** Units left. */
  readonly remaining: number | null;
  /** Seconds until more units are available. */
  readonly resetAfterS: number | null;
}

/** What a response says about limits; null is what it does not say. */
export interface Learned {
  /** Units per window, of the tightest policy. */
  readonly limit: number | null;
  /** Units left, of the tightest policy. */
  readonly remaining: number | null;
  /** Seconds until more units are available, from the time of the response. */
  readonly resetAfterS: number | null;
  /** Seconds of `Retry-After`. */
  readonly retryAfterS: number | null;
  /** All limits that the response reports by name. */
  readonly policies: readonly LearnedPolicy[];
}

type Figures = Pick<Learned, 'limit' | 'remaining' | 'resetAfterS'>;

const NOTHING: Figures = { limit: null, remaining: null, resetAfterS: null };

/** What the APIs of language models count. A request costs one of the first, and some of the others. */
const RESOURCES = ['requests', 'tokens', 'input-tokens', 'output-tokens'] as const;

/** Without a known limit, less than this is little. What is left is spread as if it were at least this. */
const LITTLE = 10;
/** Requests are spread only over a reset at least this far away; a nearer reset is waited for. */
const SPREAD_FROM_S = 30;

/**
 * Returns what a response says about limits, from any of the common families of headers.
 *
 * ```ts
 * learn(response.status, response.headers, Date.now()).remaining
 * ```
 *
 * Headers that cannot be parsed are ignored. The status makes no difference: `Retry-After` counts with any.
 *
 * @param nowMs The time of the response in milliseconds since the epoch.
 */
export function learn(_status: number, headers: HeaderSource, nowMs: number): Learned {
  const line = (name: string): string => trimBlanks(linesOf(headers, name)[0] ?? '');
  const retryAfterS = readRetryAfterS(line('retry-after'), line('retry-after-ms'), nowMs);
  const policies = readPolicies(headers);
  if (policies) return { ...scarcest(policies), retryAfterS, policies };
  const figures =
    draft07(linesOf(headers, 'ratelimit').join(', ')) ??
    separate(line, 'ratelimit-', nowMs) ??
    separate(line, 'x-ratelimit-', nowMs) ??
    separate(line, 'x-rate-limit-', nowMs);
  if (figures) return { ...figures, retryAfterS, policies: [] };
  const resources =
    readResources((name, resource) => line(`x-ratelimit-${name}-${resource}`), nowMs) ??
    readResources((name, resource) => line(`anthropic-ratelimit-${resource}-${name}`), nowMs) ??
    [];
  return { ...usedUp(resources), retryAfterS, policies: resources };
}

/**
 * Returns whether a response denies a request because of a limit, so that any method can be retried. That is 429, 503
 * with `Retry-After`, and 403 with `Retry-After` or with nothing left, as GitHub sends.
 */
export function isDenial(status: number, learned: Learned): boolean {
  if (status === 403) return learned.retryAfterS !== null || learned.remaining === 0;
  return status === 429 || (status === 503 && learned.retryAfterS !== null);
}

/** Parses draft 11: the policies of `RateLimit-Policy`, then those that only `RateLimit` has. */
function readPolicies(headers: HeaderSource): LearnedPolicy[] | undefined {
  const states = namedItems(linesOf(headers, 'ratelimit').join(', '));
  if (!states || states.length === 0) return undefined;
  const listed = namedItems(linesOf(headers, 'ratelimit-policy').join(', ')) ?? [];
  const named = (items: readonly NamedItem[], name: string): NamedItem | undefined => items.find((item) => item.name === name);
  const names = [...new Set([...listed, ...states].map((item) => item.name))];
  return names.map((name) => {
    const policy = named(listed, name)?.numbers;
    const state = named(states, name)?.numbers;
    return {
      name,
      limit: policy?.get('q') ?? null,
      windowS: policy?.get('w') ?? null,
      remaining: state?.get('r') ?? null,
      resetAfterS: state?.get('t') ?? null,
    };
  });
}

/** Returns the figures of the policy with the least left; of several, of the one with the longest reset. */
function scarcest(policies: readonly LearnedPolicy[]): Figures {
  const left = ({ remaining }: LearnedPolicy): number => remaining ?? Infinity;
  const first = policies
    .filter(({ remaining }) => remaining !== null)
    .sort((a, b) => left(a) - left(b) || (b.resetAfterS ?? 0) - (a.resetAfterS ?? 0))[0];
  return first ? { limit: first.limit, remaining: first.remaining, resetAfterS: first.resetAfterS } : NOTHING;
}

function draft07(text: string): Figures | undefined {
  const member = (name: string): number | null =>
    numberOf(new RegExp(`(?:^|[,;])\\s*${name}\\s*=\\s*([^,;\\s]+)`, 'i').exec(text)?.[1]);
  return known({ limit: member('limit'), remaining: member('remaining'), resetAfterS: member('reset') });
}

function separate(line: (name: string) => string, prefix: string, nowMs: number): Figures | undefined {
  return known({
    // Early drafts list policies after the limit.
    limit: numberOf(line(`${prefix}limit`).split(/[,;]/)[0]),
    remaining: numberOf(line(`${prefix}remaining`)),
    resetAfterS: resetAfterS(line(`${prefix}reset`), nowMs),
  });
}

/** Parses the headers of OpenAI and Anthropic: three for requests, and three for each kind of token. */
function readResources(line: (name: string, resource: string) => string, nowMs: number): LearnedPolicy[] | undefined {
  const found = RESOURCES.flatMap((name): LearnedPolicy[] => {
    const figures = known({
      limit: numberOf(line('limit', name)),
      remaining: numberOf(line('remaining', name)),
      resetAfterS: resetAfterS(line('reset', name), nowMs),
    });
    return figures ? [{ name, windowS: null, ...figures }] : [];
  });
  return found.length === 0 ? undefined : found;
}

/**
 * Returns the figures of the resource of which nothing is left, with the longest reset; else those of requests, because
 * the tokens that a request costs are not known.
 */
function usedUp(resources: readonly LearnedPolicy[]): Figures {
  const none = resources.filter(({ remaining }) => remaining === 0).sort((a, b) => (b.resetAfterS ?? 0) - (a.resetAfterS ?? 0));
  const { limit, remaining, resetAfterS: reset } = none[0] ?? resources.find(({ name }) => name === 'requests') ?? NOTHING;
  return { limit, remaining, resetAfterS: reset };
}

/** Returns whether a response says anything about limits. */
export function hasLimitInfo(learned: Learned): boolean {
  return learned.retryAfterS !== null || learned.policies.length > 0 || known(learned) !== undefined;
}

/** Returns the figures if any of them is known. */
function known(figures: Figures): Figures | undefined {
  const { limit, remaining, resetAfterS } = figures;
  return limit === null && remaining === null && resetAfterS === null ? undefined : figures;
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^[ \t]*\d{1,15}[ \t]*$/.test(text) ? Number(text) : null;
}

/** Returns the milliseconds that the next request should wait, `elapsedMs` after the response. */
export function delayMs(learned: Learned, elapsedMs: number): number {
  const waitS = requestedWaitS(learned) ?? spreadS(learned);
  return Math.max(0, Math.ceil(Math.round((waitS * 1_000 - elapsedMs) * 1e6) / 1e6));
}

/** Returns the wait that a response requests: `Retry-After`, or the reset if nothing is left. */
export function requestedWaitS({ retryAfterS, remaining, resetAfterS: reset }: Learned): number | null {
  if (retryAfterS !== null) return retryAfterS;
  return remaining === 0 ? reset : null;
}

/** Returns the seconds between requests if little is left for a long time; 0 otherwise. */
export function spreadS({ limit, remaining, resetAfterS: reset }: Learned): number {
  if (!remaining || reset === null || reset < SPREAD_FROM_S) return 0;
  const little = limit === null ? remaining < LITTLE : remaining * 5 < limit;
  return little ? reset / Math.max(remaining, LITTLE) : 0;
}

/** Returns the window of the policy that `limit`, `remaining` and `resetAfterS` are from; null if it is not known. */
export function windowOf(learned: Learned): number | null {
  const same = (policy: LearnedPolicy): boolean =>
    policy.limit === learned.limit && policy.remaining === learned.remaining && policy.resetAfterS === learned.resetAfterS;
  return learned.policies.find(same)?.windowS ?? null;
}
