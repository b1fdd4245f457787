import type { Decision } from './decision.js';

/** Everything that goes wrong in this package is one of these. A denial is none: it is a {@link Decision}. */
export class TidegateError extends Error {
  override name = 'TidegateError';
}

/** What kept the service from deciding. */
export type UnavailableReason = 'connection' | 'timeout' | 'status' | 'answer' | 'backoff' | 'overload' | 'closed';

/**
 * The service did not decide: it cannot be reached, was too slow, failed, or what answered is no
 * Tidegate. `client.check` never throws it, because then the fallback decides.
 */
export class UnavailableError extends TidegateError {
  override name = 'UnavailableError';
  /** Whether the request may have reached the service, which then may have done what it says. */
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

/** The service refused the request as a mistake of the caller (4xx other than 429); the message says what to do. */
export class RefusedError extends TidegateError {
  override name = 'RefusedError';

  constructor(
    /** 400, 401, 403, 404, 410, 413… */
    readonly status: number,
    /** What the service said. */
    readonly detail: string,
  ) {
    super(`tidegate refused the request (${status}): ${detail}`);
  }
}

/** Thrown by `withReservation` and `withPermit`, which have no other way to say that the work may not begin. */
export class RateLimitExceeded extends TidegateError {
  override name = 'RateLimitExceeded';

  constructor(readonly decision: Decision) {
    const wait = decision.retryAfter === null ? '' : `; retry in ${decision.retryAfter} s`;
    super(`the rate limit is exceeded${wait}`);
  }
}
