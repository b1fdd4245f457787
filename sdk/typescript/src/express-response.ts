import type { Response } from 'express';

import type { Decision } from './decision.js';
import { TidegateError } from './errors.js';

/** A complete response. */
export interface FullResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

/** Sends a response by Node itself: Express would add a charset and an ETag to what the service rendered. */
export function send(res: Response, { status, headers, body }: FullResponse): void {
  const bytes = Buffer.from(body);
  res.statusCode = status;
  setHeaders(res, headers, true);
  res.setHeader('content-length', bytes.length);
  res.end(bytes);
}

/** Headers that limiters have set on a response: a later limiter may replace them, but not those of the app. */
const setByLimiters = new WeakMap<Response, Map<string, string>>();

/** Sets headers; without `replace`, only those that the app has not set. */
export function setHeaders(res: Response, headers: readonly (readonly [string, string])[], replace: boolean): void {
  if (res.headersSent) return;
  const set = setByLimiters.get(res) ?? new Map<string, string>();
  setByLimiters.set(res, set);
  for (const [name, value] of headers) {
    if (!replace && res.hasHeader(name) && res.getHeader(name) !== set.get(name)) continue;
    res.setHeader(name, value);
    set.set(name, value);
  }
}

/**
 * Sends a denial as the service rendered it, for handlers that call {@link Tidegate.check} themselves.
 *
 * ```ts
 * const decision = await client.check({ descriptor: { user: req.user }, limits: '10/minute' });
 * if (!decision.allowed) return sendDenial(res, decision);
 * ```
 */
export function sendDenial(res: Response, decision: Decision): void {
  if (decision.allowed) throw new TidegateError('only a denial can be sent; this decision allows the request');
  const headers = [['content-type', decision.contentType] as const, ...Object.entries(decision.headers)];
  send(res, { status: decision.status, headers, body: decision.body.text });
}

/**
 * Adds the rate limit headers of a decision to a response, except those that the app has set.
 *
 * ```ts
 * addHeaders(res, await client.check({ descriptor: { user: req.user }, limits: '10/minute' }));
 * ```
 */
export function addHeaders(res: Response, decision: Decision): void {
  setHeaders(res, Object.entries(decision.headers), false);
}
