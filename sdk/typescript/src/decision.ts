import { RefusedError, UnavailableError } from './errors.js';

/** The state of one limit after a decision. */
export interface LimitState {
  /** The rule of the service, or `inline` for limits in code. */
  readonly rule: string;
  /** The name of the limit; by default its window. */
  readonly name: string;
  /** Units per window. */
  readonly limit: number;
  /** Units left. */
  readonly remaining: number;
  /** Milliseconds until the limit is full again. */
  readonly reset_after_ms: number;
  /** Milliseconds until the same request would pass; null if this limit lets it pass, or never would. */
  readonly retry_after_ms: number | null;
  /** Whether the limit is only evaluated, and never enforced. */
  readonly shadow: boolean;
}

/** The limit that denied a request, or that has the least left if it was allowed. */
export interface DecidedBy {
  /** The rule of the service, or `inline` for limits in code. */
  readonly rule: string;
  /** The name of the limit. */
  readonly name: string;
}

/** The body of a decision as JSON; a denial also has the members of a problem (RFC 9457). */
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
 * Where a decision was made. `memory`, `redis` or `fallback` if the service decided: in its memory, in its shared
 * store, or without that store. `local`, `allow` or `deny` if the fallback of this process decided. `disabled` for
 * a client with `enabled: false`.
 */
export type Source = 'memory' | 'redis' | 'fallback' | 'local' | 'allow' | 'deny' | (string & {});

/**
 * The outcome of a check: whether a request may pass, and the HTTP response to it.
 *
 * ```ts
 * const decision = await client.check({ descriptor: { user: 'ann' }, limits: '10/minute' });
 * if (!decision.allowed) res.writeHead(decision.status, decision.headers).end(decision.body.text);
 * ```
 */
export interface Decision {
  /** Whether the request may pass. */
  readonly allowed: boolean;
  /** 200, or 429 for a denial. */
  readonly status: number;
  /** Headers about limits as the service rendered them, in order, with names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The content type of the body. */
  readonly contentType: string;
  /** The body as the service rendered it, and parsed. */
  readonly body: { readonly text: string; readonly json: DecisionBody };
  /** The limit that denied the request, or that has the least left; null if no limit applies. */
  readonly decidedBy: DecidedBy | null;
  /** Where the decision was made. */
  readonly source: Source;
  /** The state of every limit that applies. */
  readonly limits: readonly LimitState[];
  /** Seconds until the same request would pass; null if it passes now, or never would. */
  readonly retryAfter: number | null;
}

/** @internal A response of the service to one request, by itself or as an element of a batch. */
export interface ServiceResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** The body of an allowed reservation: a decision with an ID. */
export type ReservedBody = DecisionBody & { readonly id?: unknown; readonly expires_at?: unknown };

/** Headers that are passed on: those about limits. A proxy may add others, such as cookies. */
const ABOUT_LIMITS = /^(?:(?:x-)?ratelimit(?:-[a-z]+)?|retry-after)$/;

/**
 * Returns the decision in a response.
 *
 * @throws {RefusedError} for 4xx other than 429.
 * @throws {UnavailableError} for 5xx, and for a response that is not a decision.
 */
export function decisionOf(response: ServiceResponse): Decision {
  const { status, text } = response;
  if (status !== 200 && status !== 429) throw failureOf(response);
  const json = decisionBody(text);
  if (!json || json.allowed !== (status === 200)) {
    throw new UnavailableError('response', `the response (status ${status}) is not a decision: is the url that of a Tidegate service?`);
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers)) {
    const lower = name.toLowerCase();
    if (value !== undefined && ABOUT_LIMITS.test(lower)) headers[lower] = Array.isArray(value) ? value.join(', ') : value;
  }
  return {
    allowed: json.allowed,
    status,
    headers,
    // An element of a batch has no such header.
    contentType: contentTypeOf(response) ?? (json.allowed ? 'application/json' : 'application/problem+json'),
    body: { text, json },
    decidedBy: json.decided_by ?? null,
    source: json.source,
    limits: json.limits,
    retryAfter: json.retry_after ?? null,
  };
}

function contentTypeOf({ headers }: ServiceResponse): string | undefined {
  const type = headers['content-type'];
  return typeof type === 'string' ? type : undefined;
}

/** Returns the error for a response that is not a decision. */
export function failureOf({ status, text }: ServiceResponse): RefusedError | UnavailableError {
  // A 429 that is not a decision comes from a proxy in between.
  if (status >= 400 && status < 500 && status !== 429) return new RefusedError(status, detailOf(text) ?? 'no reason was given');
  const detail = detailOf(text);
  return new UnavailableError('status', `the service responded with ${status}${detail ? `: ${detail}` : ''}`);
}

function detailOf(text: string): string | undefined {
  const detail = objectOf(text)?.['detail'];
  // The index in a batch means nothing to the caller, who made one check.
  return typeof detail === 'string' ? detail.replace(/^\[\d+\](?:: )?/, '') : undefined;
}

/** Returns the object in a JSON text; undefined if it is not one. */
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

/** Returns the state of the limit that decided; of several with its name, the one with the least left. */
export function decidingLimit(decision: Decision): LimitState | undefined {
  const { decidedBy, limits } = decision;
  if (!decidedBy) return undefined;
  return limits
    .filter((one) => !one.shadow && one.rule === decidedBy.rule && one.name === decidedBy.name)
    .reduce<LimitState | undefined>((least, one) => (least && least.remaining <= one.remaining ? least : one), undefined);
}
