import { linesOf, type HeaderSource } from './client-ip.js';
import { namedItems, type NamedItem } from './structured-field.js';

/** A policy that an answer told of; null is what it did not tell. */
export interface LearnedPolicy {
  readonly name: string;
  readonly limit: number | null;
  readonly windowS: number | null;
  readonly remaining: number | null;
  readonly resetAfterS: number | null;
}

/** What an answer told about limits; null is what it did not tell. */
export interface Learned {
  readonly limit: number | null;
  readonly remaining: number | null;
  /** Seconds until there is more, from when it was learnt. */
  readonly resetAfterS: number | null;
  readonly retryAfterS: number | null;
  readonly policies: readonly LearnedPolicy[];
}

type Figures = Pick<Learned, 'limit' | 'remaining' | 'resetAfterS'>;

const NOTHING: Figures = { limit: null, remaining: null, resetAfterS: null };

/** From these on, a reset is a moment in milliseconds or seconds since the epoch. */
const EPOCH_MS = 1e12;
const EPOCH_S = 1e9;

/**
 * Reads what an answer says about limits, in whichever of the common forms; `nowMs` is since the epoch.
 * What cannot be read is as if it were not there. The status changes nothing: `Retry-After` is obeyed
 * on any.
 */
export function learn(_status: number, headers: HeaderSource, nowMs: number): Learned {
  const retryAfterS = retryAfter(linesOf(headers, 'retry-after')[0], nowMs);
  const policies = readPolicies(headers);
  if (policies) return { ...scarcest(policies), retryAfterS, policies };
  const figures =
    draft07(linesOf(headers, 'ratelimit').join(', ')) ??
    separate(headers, 'ratelimit-', nowMs) ??
    separate(headers, 'x-ratelimit-', nowMs) ??
    separate(headers, 'x-rate-limit-', nowMs) ??
    NOTHING;
  return { ...figures, retryAfterS, policies: [] };
}

/** Draft 11: policies in the order they are listed, then those of which only the state is told. */
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

/** The policy with the least left; of several, the one that takes longest. */
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
  return told({ limit: member('limit'), remaining: member('remaining'), resetAfterS: member('reset') });
}

function separate(headers: HeaderSource, prefix: string, nowMs: number): Figures | undefined {
  const first = (name: string): string | undefined => linesOf(headers, prefix + name)[0];
  return told({
    // Early drafts list policies after the limit.
    limit: numberOf(first('limit')?.split(/[,;]/)[0]),
    remaining: numberOf(first('remaining')),
    resetAfterS: resetOf(numberOf(first('reset')), nowMs),
  });
}

/** Whether an answer said anything about limits at all. */
export function tellsSomething(learned: Learned): boolean {
  return learned.retryAfterS !== null || learned.policies.length > 0 || told(learned) !== undefined;
}

function told(figures: Figures): Figures | undefined {
  const { limit, remaining, resetAfterS } = figures;
  return limit === null && remaining === null && resetAfterS === null ? undefined : figures;
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^\s*\d+(?:\.\d+)?\s*$/.test(text) ? Number(text) : null;
}

function resetOf(reset: number | null, nowMs: number): number | null {
  if (reset === null || reset < EPOCH_S) return reset;
  const momentMs = reset >= EPOCH_MS ? reset : reset * 1_000;
  return Math.max(0, (momentMs - nowMs) / 1_000);
}

/** The three forms of a date in HTTP begin with a day; `Date.parse` alone takes much that is none. */
const DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? /i;

function retryAfter(text: string | undefined, nowMs: number): number | null {
  const value = text?.trim() ?? '';
  if (/^\d+$/.test(value)) return Number(value);
  const moment = DATE.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(moment) ? null : Math.max(0, (moment - nowMs) / 1_000);
}

/** Milliseconds that the next request should wait, if so many have gone by since it was learnt. */
export function delayMs(learned: Learned, elapsedMs: number): number {
  const wholeMs = Math.max(learned.retryAfterS ?? 0, spreadS(learned)) * 1_000;
  return Math.max(0, Math.ceil(wholeMs - elapsedMs));
}

/** What is left is spread over the time until there is more, if it is little. */
function spreadS({ limit, remaining, resetAfterS }: Learned): number {
  if (remaining === null || resetAfterS === null) return 0;
  if (remaining === 0) return resetAfterS;
  const little = limit === null ? remaining < 10 : remaining * 5 < limit;
  return little ? resetAfterS / remaining : 0;
}

/** Milliseconds between requests that waited, until an answer tells more. */
export function gapMs(learned: Learned): number {
  const spreadMs = spreadS(learned) * 1_000;
  if (learned.remaining !== 0 && spreadMs > 0) return spreadMs;
  if (spreadMs === 0 && !learned.retryAfterS) return 0;
  // After a pause nothing is known but the rate, if that.
  const policy = learned.policies.find(({ limit, windowS }) => limit !== null && limit > 0 && windowS !== null);
  const evenMs = policy ? ((policy.windowS ?? 0) * 1_000) / (policy.limit ?? 1) : UNKNOWN_GAP_MS;
  return Math.min(evenMs, MOST_GAP_MS);
}

const UNKNOWN_GAP_MS = 100;
/** An answer comes sooner than this, and tells more. */
const MOST_GAP_MS = 1_000;
