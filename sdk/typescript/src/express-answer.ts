import type { Response } from 'express';

import type { Decision } from './decision.js';
import { TidegateError } from './errors.js';

/** An answer as a whole. */
export interface Whole {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

/** Below Express, which would add a charset and an ETag: the bytes are the service's. */
export function send(res: Response, { status, headers, body }: Whole): void {
  const bytes = Buffer.from(body);
  res.statusCode = status;
  setHeaders(res, headers, true);
  res.setHeader('content-length', bytes.length);
  res.end(bytes);
}

/** What middlewares of ours have set on an answer: a later one may change it, the app's own stays. */
const ours = new WeakMap<Response, Map<string, string>>();

/** Sets headers; without `replace`, only those that the app has not set. */
export function setHeaders(res: Response, headers: readonly (readonly [string, string])[], replace: boolean): void {
  if (res.headersSent) return;
  const set = ours.get(res) ?? new Map<string, string>();
  ours.set(res, set);
  for (const [name, value] of headers) {
    if (!replace && res.hasHeader(name) && res.getHeader(name) !== set.get(name)) continue;
    res.setHeader(name, value);
    set.set(name, value);
  }
}

/** Answers with a denial as the service rendered it. */
export function sendDenial(res: Response, decision: Decision): void {
  if (decision.allowed) throw new TidegateError('only a denial can be sent; this decision allows the request');
  const headers = [['content-type', decision.contentType] as const, ...Object.entries(decision.headers)];
  send(res, { status: decision.status, headers, body: decision.body.text });
}

/** Adds the headers of a decision to an answer. */
export function addHeaders(res: Response, decision: Decision): void {
  setHeaders(res, Object.entries(decision.headers), false);
}
