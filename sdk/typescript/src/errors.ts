import type { Decision } from './decision.js';

/** The base class of all errors of this package. A denial is not an error, but a {@link Decision}. */
export class TidegateError extends Error {
  override name = 'TidegateError';
}

/**
 * Why the service could not be used: `connection` (it cannot be reached), `timeout` (no response within the deadline),
 * `status` (it responded with an error), `response` (the response is not that of a Tidegate service), `backoff` (it
 * failed a moment ago and is not called until the next retry), `overload` (too many checks wait), or `closed` (the
 * client is closed).
 */
export type UnavailableReason = 'connection' | 'timeout' | 'status' | 'response' | 'backoff' | 'overload' | 'closed';

/**
 * The service could not be reached, was too slow, failed, or sent a response that is not that of a Tidegate service.
 * `client.check` never throws it, because the fallback decides then.
 */
export class UnavailableError extends TidegateError {
  override name = 'UnavailableError';
  /** Whether the request may have reached the service, and may have been executed there. */
  readonly sent: boolean;

  constructor(
    readonly reason: UnavailableReason,
    message: string,
    { sent = true, ...options }: ErrorOptions & { readonly sent?: boolean } = {},
  ) {
    super(message, options);
    this.sent = sent;
  }
}

/**
 * The service rejected a request as invalid (4xx other than 429), as for an unknown domain, a limit that the domain
 * does not allow, or a wrong token. Retrying does not help.
 */
export class RefusedError extends TidegateError {
  override name = 'RefusedError';

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The reason that the service gave. */
    readonly detail: string,
  ) {
    super(`tidegate refused the request (${status}): ${detail}`);
  }
}

/** `withReservation` and `withPermit` throw it if the work may not begin. `decision` is the denial. */
export class RateLimitExceeded extends TidegateError {
  override name = 'RateLimitExceeded';

  constructor(readonly decision: Decision) {
    const wait = decision.retryAfter === null ? '' : `; retry in ${decision.retryAfter} s`;
    super(`the rate limit is exceeded${wait}`);
  }
}
