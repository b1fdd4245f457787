import { createHash } from 'node:crypto';

import type { DecidedBy, Decision, DecisionBody, LimitState } from './decision.js';
import type { LocalVerdict } from './fallback.js';
import { windowMs, windowTitle } from './limits.js';

const PROBLEM_TYPE = 'https://iana.org/assignments/http-problem-types#quota-exceeded';

/** The largest integer of structured fields. */
const MAX_INTEGER = 999_999_999_999_999;

/** Returns a decision that lets a request pass, without any limits. */
export function allowed(source: 'allow' | 'disabled' = 'allow'): Decision {
  return decision({ allowed: true, decided_by: null, source, limits: [] }, {}, null);
}

/** Returns the denial of the fallback `deny`. */
export function denied(): Decision {
  const body: DecisionBody = {
    type: PROBLEM_TYPE,
    title: 'Quota Exceeded',
    status: 429,
    detail: 'the rate limit service cannot be reached, and requests are denied meanwhile; retry in 1 second',
    'violated-policies': [],
    retry_after: 1,
    limit: null,
    window: null,
    scope: null,
    allowed: false,
    decided_by: null,
    source: 'deny',
    limits: [],
  };
  return decision(body, { 'retry-after': '1' }, 1);
}

/** Returns the decision by counters of this process, rendered as the service would; without limits it passes. */
export function local(verdicts: readonly LocalVerdict[], nowMs: number): Decision {
  const deciding = decidingOf(verdicts);
  if (!deciding) return allowed();
  const members = {
    allowed: deciding.allowed,
    decided_by: namesOf(deciding),
    source: 'local',
    limits: verdicts.map(stateOf),
  };
  const headers = headersOf(verdicts, deciding, nowMs);
  if (deciding.allowed) return decision(members, headers, null);

  const retryAfter = retryAfterS(deciding);
  if (retryAfter !== null) headers['retry-after'] = String(retryAfter);
  const body: DecisionBody = {
    type: PROBLEM_TYPE,
    title: 'Quota Exceeded',
    status: 429,
    detail: detailOf(deciding, retryAfter),
    'violated-policies': policyNames(verdicts).filter((_, index) => verdicts[index]?.allowed === false),
    retry_after: retryAfter,
    limit: deciding.charge.limit.requests,
    window: windowSeconds(deciding),
    scope: deciding.charge.rule,
    ...members,
  };
  return decision(body, headers, retryAfter);
}

function decision(json: DecisionBody, headers: Readonly<Record<string, string>>, retryAfter: number | null): Decision {
  return {
    allowed: json.allowed,
    status: json.allowed ? 200 : 429,
    headers,
    contentType: json.allowed ? 'application/json' : 'application/problem+json',
    body: { text: JSON.stringify(json), json },
    decidedBy: json.decided_by,
    source: json.source,
    limits: json.limits,
    retryAfter,
  };
}

/** Returns the verdict that denies for longest, or else has the least left. */
function decidingOf(verdicts: readonly LocalVerdict[]): LocalVerdict | undefined {
  const wait = (one: LocalVerdict): number => (one.allowed ? -1 : one.retryAfterMs ?? Infinity);
  return [...verdicts].sort((a, b) => wait(b) - wait(a) || a.remaining - b.remaining)[0];
}

function namesOf({ charge }: LocalVerdict): DecidedBy {
  return { rule: charge.rule, name: charge.title };
}

/** Returns the state of a limit, as the service writes it. */
export function stateOf(verdict: LocalVerdict): LimitState {
  return {
    ...namesOf(verdict),
    limit: verdict.charge.limit.requests,
    remaining: verdict.remaining,
    reset_after_ms: verdict.resetAfterMs,
    retry_after_ms: verdict.retryAfterMs,
    shadow: false,
  };
}

/** The most that jitter adds to a wait: a tenth of it, and at most 5 s. */
const JITTER_DIVISOR = 10;
const MAX_JITTER_S = 5;

/**
 * Returns whole seconds, rounded up so that no client returns too early, plus jitter so that clients denied together do
 * not return together. The jitter is a hash of rule and key, so that every process computes the same.
 */
function retryAfterS({ charge, retryAfterMs }: LocalVerdict): number | null {
  if (retryAfterMs === null) return null;
  const mostS = Math.min(Math.floor(retryAfterMs / 1_000 / JITTER_DIVISOR), MAX_JITTER_S);
  const jitterS = mostS === 0 ? 0 : createHash('sha256').update(charge.partition).digest().readUInt32BE() % (mostS + 1);
  return Math.max(Math.ceil(retryAfterMs / 1_000), 1) + jitterS;
}

function detailOf({ charge: { rule, limit, title } }: LocalVerdict, retryAfter: number | null): string {
  const what = `limit ${title} of rule ${rule} allows ${limit.requests} per ${windowTitle(limit.per)}`;
  if (retryAfter !== null) return `${what}; retry in ${retryAfter} second${retryAfter === 1 ? '' : 's'}`;
  if (limit.requests === 0) return `${what}; nothing passes`;
  return `${what}; a request of this cost never passes, lower its cost`;
}

function windowSeconds({ charge }: LocalVerdict): number {
  return Math.ceil(windowMs(charge.limit.per) / 1_000);
}

/** Returns the milliseconds until more units are available: after a denial until a retry, else at most a window. */
function moreAfterMs({ charge, resetAfterMs, retryAfterMs }: LocalVerdict): number {
  return retryAfterMs ?? Math.min(resetAfterMs, windowMs(charge.limit.per));
}

function headersOf(verdicts: readonly LocalVerdict[], deciding: LocalVerdict, nowMs: number): Record<string, string> {
  const names = policyNames(verdicts);
  const listed = (parameters: (verdict: LocalVerdict) => string): string =>
    verdicts.map((verdict, index) => `"${names[index] ?? ''}";${parameters(verdict)}`).join(', ');
  const number = (value: number): number => Math.min(value, MAX_INTEGER);
  return {
    'ratelimit-policy': listed((one) => `q=${number(one.charge.limit.requests)};w=${windowSeconds(one)}`),
    ratelimit: listed((one) => `r=${number(one.remaining)};t=${Math.ceil(moreAfterMs(one) / 1_000)}`),
    'x-ratelimit-limit': String(deciding.charge.limit.requests),
    'x-ratelimit-remaining': String(deciding.remaining),
    'x-ratelimit-reset': String(Math.ceil((nowMs + moreAfterMs(deciding)) / 1_000)),
  };
}

/** Returns `rule:limit` for each verdict; the second of the same name ends with `#2`, and so on. */
function policyNames(verdicts: readonly LocalVerdict[]): string[] {
  const seen = new Map<string, number>();
  return verdicts.map(({ charge }) => {
    const name = policyName(charge.rule, charge.title);
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : `${name}#${count}`;
  });
}

/** Returns the name of a policy in headers, as the service writes it. */
export function policyName(rule: string, limit: string): string {
  return `${encoded(rule, /[^\x20-\x7e]|["\\,;%]/u)}:${encoded(limit, /[^\x20-\x7e]|["\\,;%:#]/u)}`;
}

/** Returns a label as the name of a policy; characters that a structured field cannot hold are percent-encoded. */
export function labelText(label: string): string {
  return encoded(label, /[^\x20-\x7e]|["\\,;%]/u);
}

function encoded(text: string, forbidden: RegExp): string {
  const bytes = (character: string): string =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
  return text.replace(new RegExp(forbidden.source, 'gu'), bytes);
}
