import type { Decision } from './decision.js';
import type { Reservation } from './reservation.js';

/** An answer in place of the service's. */
export interface Reply {
  /** 429 unless told. */
  readonly status?: number;
  /** Set beside those about limits. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Plain text, unless the headers have a content type. */
  readonly body: string;
}

/** What to do with a request. */
export type Outcome =
  | { readonly kind: 'skip' }
  | {
      readonly kind: 'pass';
      readonly decision: Decision;
      /** To be added to the answer of the app. */
      readonly headers: readonly (readonly [name: string, value: string])[];
      /** Who was charged; undefined if the app gave its own descriptors. */
      readonly key: string | undefined;
      /** If the limiter reserves. */
      readonly reservation: Reservation | undefined;
    }
  | {
      readonly kind: 'deny';
      readonly decision: Decision;
      readonly key: string | undefined;
      /** The whole answer, the content type among its headers. */
      readonly status: number;
      readonly headers: readonly (readonly [name: string, value: string])[];
      readonly body: string;
    };

/** @internal The whole answer to a denial: the service's, unless there is one in its place. */
export function answerOf(
  decision: Decision,
  headers: [string, string][],
  { reply, body }: { readonly reply: Reply | undefined; readonly body: string },
): { status: number; headers: [string, string][]; body: string } {
  if (!reply) return { status: decision.status, headers: [['content-type', decision.contentType], ...headers], body };
  const own = Object.entries(reply.headers ?? {}).map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  const names = new Set(own.map(([name]) => name));
  const typed: [string, string][] = names.has('content-type') ? [] : [['content-type', 'text/plain; charset=utf-8']];
  return {
    status: reply.status ?? decision.status,
    headers: [...typed, ...headers.filter(([name]) => !names.has(name)), ...own],
    body: reply.body,
  };
}
