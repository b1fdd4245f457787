import { decidingLimit, type Decision } from './decision.js';
import { labelText, policyName } from './render.js';
import { namedItems } from './structured-field.js';

/**
 * The shape of the standard headers: `draft-11`, and `draft-8` which is the same, as the service renders
 * them; `draft-7` and `draft-6` made from the decision; `true` is `draft-6`, as in express-rate-limit.
 */
export type StandardHeaders = boolean | 'draft-6' | 'draft-7' | 'draft-8' | 'draft-11';

/** Which headers an answer gets. */
export interface HeaderChoice {
  readonly standardHeaders: StandardHeaders;
  /** Whether `X-RateLimit-*` are passed on. */
  readonly legacyHeaders: boolean;
  /** What the policy is called in place of its own name, where there is one limit. */
  readonly label?: string | undefined;
}

/** @internal The shapes there are, for options that come from JavaScript. */
export const STANDARD_HEADERS: readonly StandardHeaders[] = ['draft-11', 'draft-8', 'draft-7', 'draft-6', true, false];

/** The limit that decided, in the numbers of headers. */
export interface Deciding {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until there is more. */
  readonly resetS: number;
  /** Null if it is not known, or the limit is on holders. */
  readonly windowS: number | null;
}

/** The headers to pass on, in order. */
export function headersOf(decision: Decision, choice: HeaderChoice): [name: string, value: string][] {
  const asRendered = choice.standardHeaders === 'draft-11' || choice.standardHeaders === 'draft-8';
  const kept = Object.entries(labelled(decision, choice.label)).filter(([name]) => {
    if (name.startsWith('x-ratelimit-')) return choice.legacyHeaders;
    return asRendered || !name.startsWith('ratelimit');
  });
  const deciding = asRendered || choice.standardHeaders === false ? undefined : decidingNumbers(decision);
  return deciding ? [...made(deciding, choice.standardHeaders), ...kept] : kept;
}

/** The headers, with the policy called by its label. */
function labelled(decision: Decision, label: string | undefined): Readonly<Record<string, string>> {
  const names = renaming(decision, label);
  if (!names) return decision.headers;
  const renamed = (value: string): string => (value.startsWith(`"${names.from}";`) ? `"${names.to}"${value.slice(names.from.length + 2)}` : value);
  return Object.fromEntries(
    Object.entries(decision.headers).map(([name, value]) => [name, name.startsWith('ratelimit') ? renamed(value) : value]),
  );
}

/** What the one policy of a decision is called, and its label; undefined if there is nothing to rename. */
function renaming(decision: Decision, label: string | undefined): { from: string; to: string } | undefined {
  const [limit, ...more] = decision.limits;
  if (label === undefined || !limit || more.length > 0) return undefined;
  return { from: policyName(limit.rule, limit.name), to: labelText(label) };
}

/** The body of a denial, in which the policy has its label, too: clients find by it what the headers say. */
export function bodyOf(decision: Decision, label: string | undefined): string {
  const names = renaming(decision, label);
  const violated = decision.body.json['violated-policies'];
  if (!names || !violated) return decision.body.text;
  const renamed = violated.map((policy) => (policy === names.from ? names.to : policy));
  return JSON.stringify({ ...decision.body.json, 'violated-policies': renamed });
}

function made({ limit, remaining, resetS, windowS }: Deciding, shape: StandardHeaders): [string, string][] {
  const policy: [string, string][] = windowS === null ? [] : [['ratelimit-policy', `${limit};w=${windowS}`]];
  if (shape === 'draft-7') {
    return [...policy, ['ratelimit', `limit=${limit}, remaining=${remaining}, reset=${resetS}`]];
  }
  return [
    ...policy,
    ['ratelimit-limit', String(limit)],
    ['ratelimit-remaining', String(remaining)],
    ['ratelimit-reset', String(resetS)],
  ];
}

/** The numbers of the limit that decided; undefined if none applies. */
export function decidingNumbers(decision: Decision): Deciding | undefined {
  const state = decidingLimit(decision);
  if (!state) return undefined;
  const parameter = (header: string, name: string): number | undefined => {
    const policy = policyName(state.rule, state.name);
    const items = namedItems(decision.headers[header] ?? '') ?? [];
    return items.find((item) => item.name === policy)?.numbers.get(name);
  };
  return {
    limit: state.limit,
    remaining: state.remaining,
    resetS: parameter('ratelimit', 't') ?? Math.ceil((state.retry_after_ms ?? state.reset_after_ms) / 1_000),
    windowS: parameter('ratelimit-policy', 'w') ?? decision.body.json.window ?? null,
  };
}

/** Pairs as they came: Node joins lines of one name, and where one ends matters for `Forwarded`. */
export function* rawPairs(raw: readonly string[]): Generator<readonly [string, string]> {
  for (let index = 0; index + 1 < raw.length; index += 2) {
    yield [raw[index] as string, raw[index + 1] as string];
  }
}
