import type { Decision } from './decision.js';
import type { Reservation } from './reservation.js';

/** A response to a denial that an `onReject` function returns, in place of the service's. */
export interface Reply {
  /** The status. Default: 429. */
  readonly status?: number;
  /** Headers that are sent in addition to those about limits. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The body; plain text, unless the headers have a content type. */
  readonly body: string;
}

/**
 * What to do with a request, from {@link Limiter.decide}: it was skipped and is not limited (`skip`), it may pass
 * (`pass`), or it is denied (`deny`).
 */
export type Outcome =
  | { readonly kind: 'skip' }
  | {
      readonly kind: 'pass';
      readonly decision: Decision;
      /** Headers to add to the response of the app. */
      readonly headers: readonly (readonly [name: string, value: string])[];
      /** The key that was charged; undefined with `descriptors`. */
      readonly key: string | undefined;
      /** The reservation, if the limiter has the option `reserve`. */
      readonly reservation: Reservation | undefined;
    }
  | {
      readonly kind: 'deny';
      readonly decision: Decision;
      /** The key that was denied; undefined with `descriptors`. */
      readonly key: string | undefined;
      /** The response to send: status, headers (with the content type) and body. */
      readonly status: number;
      readonly headers: readonly (readonly [name: string, value: string])[];
      readonly body: string;
    };

/** @internal Returns the response to a denial: the service's, unless `onReject` returned another. */
export function denialOf(
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
