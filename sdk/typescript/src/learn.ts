import { withoutBlanks } from './blanks.js';
import { linesOf, type HeaderSource } from './client-ip.js';
import { resetAfterS, retryAfterS as readRetryAfterS } from './reset-times.js';
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

/** What the APIs of language models count. A request takes one of the first, and some of the others. */
const RESOURCES = ['requests', 'tokens', 'input-tokens', 'output-tokens'] as const;

/** Where no limit is told, less than this is little. What is left is spread as if it were at least this. */
const LITTLE = 10;
/** What is left is spread only over a time this long or longer: a shorter one can be waited for. */
const SPREAD_FROM_S = 30;

/**
 * Reads what an answer says about limits, in whichever of the common forms; `nowMs` is since the epoch.
 * What cannot be read is as if it were not there. The status changes nothing: `Retry-After` is obeyed
 * on any.
 */
export function learn(_status: number, headers: HeaderSource, nowMs: number): Learned {
  const line = (name: string): string => withoutBlanks(linesOf(headers, name)[0] ?? '');
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
 * Whether an answer says that nothing was done because of a limit, so that any method can be sent again.
 * GitHub denies with 403, and tells either how long to wait or that nothing is left.
 */
export function isDenial(status: number, learned: Learned): boolean {
  if (status === 403) return learned.retryAfterS !== null || learned.remaining === 0;
  return status === 429 || (status === 503 && learned.retryAfterS !== null);
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

function separate(line: (name: string) => string, prefix: string, nowMs: number): Figures | undefined {
  return told({
    // Early drafts list policies after the limit.
    limit: numberOf(line(`${prefix}limit`).split(/[,;]/)[0]),
    remaining: numberOf(line(`${prefix}remaining`)),
    resetAfterS: resetAfterS(line(`${prefix}reset`), nowMs),
  });
}

/** What OpenAI and Anthropic tell: requests and tokens, each with three headers of its own. */
function readResources(line: (name: string, resource: string) => string, nowMs: number): LearnedPolicy[] | undefined {
  const found = RESOURCES.flatMap((name): LearnedPolicy[] => {
    const figures = told({
      limit: numberOf(line('limit', name)),
      remaining: numberOf(line('remaining', name)),
      resetAfterS: resetAfterS(line('reset', name), nowMs),
    });
    return figures ? [{ name, windowS: null, ...figures }] : [];
  });
  return found.length === 0 ? undefined : found;
}

/** The resource of which nothing is left, for longest; else requests. Nobody knows how many tokens a request takes. */
function usedUp(resources: readonly LearnedPolicy[]): Figures {
  const none = resources.filter(({ remaining }) => remaining === 0).sort((a, b) => (b.resetAfterS ?? 0) - (a.resetAfterS ?? 0));
  const { limit, remaining, resetAfterS: reset } = none[0] ?? resources.find(({ name }) => name === 'requests') ?? NOTHING;
  return { limit, remaining, resetAfterS: reset };
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
  return text !== undefined && /^[ \t]*\d{1,15}[ \t]*$/.test(text) ? Number(text) : null;
}

/** Milliseconds that the next request should wait, if so many have gone by since it was learnt. */
export function delayMs(learned: Learned, elapsedMs: number): number {
  const waitS = toldWaitS(learned) ?? spreadS(learned);
  return Math.max(0, Math.ceil(Math.round((waitS * 1_000 - elapsedMs) * 1e6) / 1e6));
}

/** The wait that an answer asks for: `Retry-After`, or the time until there is more if nothing is left. */
export function toldWaitS({ retryAfterS, remaining, resetAfterS: reset }: Learned): number | null {
  if (retryAfterS !== null) return retryAfterS;
  return remaining === 0 ? reset : null;
}

/** How far apart requests start because little is left for a long time; 0 if they need not be. */
export function spreadS({ limit, remaining, resetAfterS: reset }: Learned): number {
  if (!remaining || reset === null || reset < SPREAD_FROM_S) return 0;
  const little = limit === null ? remaining < LITTLE : remaining * 5 < limit;
  return little ? reset / Math.max(remaining, LITTLE) : 0;
}

/** The window of the policy that the limit, what is left and the reset are from; null if it is not told. */
export function windowOf(learned: Learned): number | null {
  const same = (policy: LearnedPolicy): boolean =>
    policy.limit === learned.limit && policy.remaining === learned.remaining && policy.resetAfterS === learned.resetAfterS;
  return learned.policies.find(same)?.windowS ?? null;
}
