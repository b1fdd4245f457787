import { decidingLimit, type Decision } from './decision.js';
import { policyName } from './render.js';
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
}

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
  const kept = Object.entries(decision.headers).filter(([name]) => {
    if (name.startsWith('x-ratelimit-')) return choice.legacyHeaders;
    return asRendered || !name.startsWith('ratelimit');
  });
  const deciding = asRendered || choice.standardHeaders === false ? undefined : decidingNumbers(decision);
  return deciding ? [...made(deciding, choice.standardHeaders), ...kept] : kept;
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
