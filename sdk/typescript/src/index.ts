/**
 * A client of the Tidegate rate limit service, and a limiter for any Node server.
 *
 * `tidegate/express` is the middleware for Express, `tidegate/ws` limits WebSockets, and `tidegate/pacing` is a
 * `fetch` that keeps to the limits of the servers it calls.
 *
 * @module
 */
export { Tidegate } from './client.js';
export { type CheckOptions, type ClientOptions, type LocalOptions } from './client-options.js';
export { ClientIpFinder, ipKey, type ClientIp, type ClientIpOptions, type HeaderSource } from './client-ip.js';
export { type DecidedBy, type Decision, type DecisionBody, type LimitState, type Source } from './decision.js';
export { type CheckRequest, type Descriptor, type Entry, type FullDescriptor } from './descriptor.js';
export { RateLimitExceeded, RefusedError, TidegateError, UnavailableError, type UnavailableReason } from './errors.js';
export { type Fallback } from './fallback.js';
export { type StandardHeaders } from './headers.js';
export { Limiter } from './limiter.js';
export { type LimiterOptions, type PlainRequest, type ValueOrFunction } from './limiter-options.js';
export { parseLimits, type Algorithm, type Limit } from './limits.js';
export { type Outcome, type Reply } from './outcome.js';
export { Permit, withPermit, type AcquireRequest } from './permit.js';
export { Reservation, withReservation, type ReserveRequest, type Settlement } from './reservation.js';
export { type Logger, type WarningCode } from './warnings.js';
