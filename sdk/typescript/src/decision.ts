import { RefusedError, UnavailableError } from './errors.js';

/** How one limit stands. */
export interface LimitState {
  readonly rule: string;
  readonly name: string;
  readonly limit: number;
  /** Units left afterwards. */
  readonly remaining: number;
  /** Until the limit is as if untouched. */
  readonly reset_after_ms: number;
  /** Until the same request would pass; null if this limit lets it pass, or never will. */
  readonly retry_after_ms: number | null;
  /** Whether the limit only watches. */
  readonly shadow: boolean;
}

/** The limit that denied, or came closest to it. */
export interface DecidedBy {
  readonly rule: string;
  readonly name: string;
}

/** The members of every answer; a denial has those of a problem (RFC 9457) before them. */
export interface DecisionBody {
  readonly allowed: boolean;
  readonly decided_by: DecidedBy | null;
  readonly source: string;
  readonly limits: readonly LimitState[];
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly detail?: string;
  readonly 'violated-policies'?: readonly string[];
  readonly retry_after?: number | null;
  readonly limit?: number | null;
  readonly window?: number | null;
  readonly scope?: string | null;
}

/**
 * Who decided. The service says `memory`, `shared` or `fallback`; this package `local`, `allow` or
 * `deny`, if it had to decide by itself.
 */
export type Source = 'memory' | 'shared' | 'fallback' | 'local' | 'allow' | 'deny' | (string & {});

/** The outcome of a request. */
export interface Decision {
  readonly allowed: boolean;
  /** 200 or 429: what an HTTP answer should have if it is a denial. */
  readonly status: number;
  /** Headers about the limits as they were rendered, names in lower case, in order. */
  readonly headers: Readonly<Record<string, string>>;
  /** Of the body. */
  readonly contentType: string;
  /** The body as it was rendered, and the same read. */
  readonly body: { readonly text: string; readonly json: DecisionBody };
  readonly decidedBy: DecidedBy | null;
  readonly source: Source;
  readonly limits: readonly LimitState[];
  /** Seconds, as in `Retry-After`; null if it is allowed, or will never be. */
  readonly retryAfter: number | null;
}

/** A part of an answer of the service that stands for one request. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** What an allowed reservation has beside the members of a decision. */
export type WithId = DecisionBody & { readonly id?: unknown; readonly expires_at?: unknown };

/** Only headers about limits are passed on: whatever stands between may add others, such as cookies. */
const ABOUT_LIMITS = /^(?:(?:x-)?ratelimit(?:-[a-z]+)?|retry-after)$/;

/**
 * Reads an answer as a decision.
 *
 * @throws {RefusedError} for 4xx other than 429; {@link UnavailableError} for whatever else is none.
 */
export function decisionOf(answer: Answer): Decision {
  const { status, text } = answer;
  if (status !== 200 && status !== 429) throw failureOf(answer);
  const json = decisionBody(text);
  if (!json || json.allowed !== (status === 200)) {
    throw new UnavailableError('answer', `status ${status} came without a decision: is the url that of a Tidegate?`);
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(answer.headers)) {
    const lower = name.toLowerCase();
    if (value !== undefined && ABOUT_LIMITS.test(lower)) headers[lower] = Array.isArray(value) ? value.join(', ') : value;
  }
  return {
    allowed: json.allowed,
    status,
    headers,
    // An element of a batch has none of its own.
    contentType: typeOf(answer) ?? (json.allowed ? 'application/json' : 'application/problem+json'),
    body: { text, json },
    decidedBy: json.decided_by ?? null,
    source: json.source,
    limits: json.limits,
    retryAfter: json.retry_after ?? null,
  };
}

function typeOf({ headers }: Answer): string | undefined {
  const type = headers['content-type'];
  return typeof type === 'string' ? type : undefined;
}

/** What an answer that is not 200 or 429 means. */
export function failureOf({ status, text }: Answer): RefusedError | UnavailableError {
  // A 429 that is no decision comes from something in between.
  if (status >= 400 && status < 500 && status !== 429) return new RefusedError(status, detailOf(text) ?? 'no reason was given');
  const detail = detailOf(text);
  return new UnavailableError('status', `the service answered ${status}${detail ? `: ${detail}` : ''}`);
}

function detailOf(text: string): string | undefined {
  const detail = objectOf(text)?.['detail'];
  // Which of a batch it was means nothing to whoever made one check.
  return typeof detail === 'string' ? detail.replace(/^\[\d+\](?:: )?/, '') : undefined;
}

/** JSON that is an object, or nothing. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function decisionBody(text: string): DecisionBody | undefined {
  const json = objectOf(text) as Partial<DecisionBody> | undefined;
  const known = json && typeof json.allowed === 'boolean' && typeof json.source === 'string' && Array.isArray(json.limits);
  return known ? (json as DecisionBody) : undefined;
}

/** How the limit that decided stands: of several with its name, the one with least left. */
export function decidingLimit(decision: Decision): LimitState | undefined {
  const { decidedBy, limits } = decision;
  if (!decidedBy) return undefined;
  return limits
    .filter((one) => !one.shadow && one.rule === decidedBy.rule && one.name === decidedBy.name)
    .reduce<LimitState | undefined>((least, one) => (least && least.remaining <= one.remaining ? least : one), undefined);
}
