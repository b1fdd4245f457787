import { decidingLimit, type Decision } from './decision.js';
import { labelText, policyName } from './render.js';
import { namedItems } from './structured-field.js';

/**
 * The form of the `RateLimit` headers. `draft-11`, and `draft-8` which has the same form, are passed on as the service
 * rendered them. `draft-7` and `draft-6` are made from the decision. `true` stands for `draft-6`, as in
 * express-rate-limit, and `false` for none.
 */
export type StandardHeaders = boolean | 'draft-6' | 'draft-7' | 'draft-8' | 'draft-11';

/** @internal Which headers a response gets. */
export interface HeaderChoice {
  readonly standardHeaders: StandardHeaders;
  /** Whether `X-RateLimit-*` are passed on. */
  readonly legacyHeaders: boolean;
  /** The name of the policy in place of its own, if there is only one limit. */
  readonly label?: string | undefined;
}

/** @internal The valid values, to check options that come from JavaScript. */
export const STANDARD_HEADERS: readonly StandardHeaders[] = ['draft-11', 'draft-8', 'draft-7', 'draft-6', true, false];

/** @internal The numbers of the limit that decided, as headers have them. */
export interface Deciding {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until more units are available. */
  readonly resetS: number;
  /** Null if it is not known, as for a concurrency limit. */
  readonly windowS: number | null;
}

/** Returns the headers to send with a response, in order. */
export function headersOf(decision: Decision, choice: HeaderChoice): [name: string, value: string][] {
  const asRendered = choice.standardHeaders === 'draft-11' || choice.standardHeaders === 'draft-8';
  const kept = Object.entries(labelled(decision, choice.label)).filter(([name]) => {
    if (name.startsWith('x-ratelimit-')) return choice.legacyHeaders;
    return asRendered || !name.startsWith('ratelimit');
  });
  const deciding = asRendered || choice.standardHeaders === false ? undefined : decidingNumbers(decision);
  return deciding ? [...earlierDraft(deciding, choice.standardHeaders), ...kept] : kept;
}

/** Returns the headers of a decision, with the label in place of the name of the policy. */
function labelled(decision: Decision, label: string | undefined): Readonly<Record<string, string>> {
  const names = renaming(decision, label);
  if (!names) return decision.headers;
  const renamed = (value: string): string => (value.startsWith(`"${names.from}";`) ? `"${names.to}"${value.slice(names.from.length + 2)}` : value);
  return Object.fromEntries(
    Object.entries(decision.headers).map(([name, value]) => [name, name.startsWith('ratelimit') ? renamed(value) : value]),
  );
}

/** Returns the name of the only policy of a decision, and its label; undefined if there is nothing to rename. */
function renaming(decision: Decision, label: string | undefined): { from: string; to: string } | undefined {
  const [limit, ...more] = decision.limits;
  if (label === undefined || !limit || more.length > 0) return undefined;
  return { from: policyName(limit.rule, limit.name), to: labelText(label) };
}

/** Returns the body of a denial, with the label in place of the name of the policy, so that it matches the headers. */
export function bodyOf(decision: Decision, label: string | undefined): string {
  const names = renaming(decision, label);
  const violated = decision.body.json['violated-policies'];
  if (!names || !violated) return decision.body.text;
  const renamed = violated.map((policy) => (policy === names.from ? names.to : policy));
  return JSON.stringify({ ...decision.body.json, 'violated-policies': renamed });
}

function earlierDraft({ limit, remaining, resetS, windowS }: Deciding, form: StandardHeaders): [string, string][] {
  const policy: [string, string][] = windowS === null ? [] : [['ratelimit-policy', `${limit};w=${windowS}`]];
  if (form === 'draft-7') {
    return [...policy, ['ratelimit', `limit=${limit}, remaining=${remaining}, reset=${resetS}`]];
  }
  return [
    ...policy,
    ['ratelimit-limit', String(limit)],
    ['ratelimit-remaining', String(remaining)],
    ['ratelimit-reset', String(resetS)],
  ];
}

/** Returns the numbers of the limit that decided; undefined if no limit applies. */
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

/** Yields the headers as pairs, line by line. Node's object joins lines of one name, which loses the ends of `Forwarded`. */
export function* rawPairs(raw: readonly string[]): Generator<readonly [string, string]> {
  for (let index = 0; index + 1 < raw.length; index += 2) {
    yield [raw[index] as string, raw[index + 1] as string];
  }
}
