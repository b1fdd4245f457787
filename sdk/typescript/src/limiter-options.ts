import type { Tidegate } from './client.js';
import type { ClientIpOptions, HeaderSource } from './client-ip.js';
import type { Decision } from './decision.js';
import type { Descriptor } from './descriptor.js';
import type { Fallback } from './fallback.js';
import type { StandardHeaders } from './headers.js';
import type { Limit } from './limits.js';
import type { Reply } from './outcome.js';
import type { Logger } from './warnings.js';

/** A request as a {@link Limiter} needs it, from any framework. */
export interface PlainRequest {
  /** The method in upper case. */
  readonly method: string;
  /** The path without the query. It is never part of a counter. */
  readonly path: string;
  /** Method and template of the route, where the framework knows them: `GET /users/:id`. Never the path itself. */
  readonly template?: string;
  /** The address at the other end of the connection; undefined for a Unix socket. */
  readonly peer: string | undefined;
  /** The headers, as pairs in the order they came or as Node's object. */
  readonly headers: HeaderSource;
  /** The framework's request object; it is used to notice a request that is counted twice. */
  readonly identity?: object;
}

/** A value, or a function of the request that returns it; the function may be async. */
export type ValueOrFunction<T, C> = T | ((context: C) => T | Promise<T>);

/** @internal Returns the value of an option, which may be a function of the request. */
export async function resolve<T, C>(option: ValueOrFunction<T, C> | undefined, context: C): Promise<T | undefined> {
  return typeof option === 'function' ? (option as (context: C) => T | Promise<T>)(context) : option;
}

/** Options of a {@link Limiter}. `C` is the type that its functions are called with. */
export interface LimiterOptions<C = PlainRequest> extends Omit<ClientIpOptions, 'ipv6Prefix'> {
  /** The client of the service. Default: limiters with the same `url` share one. */
  readonly client?: Tidegate;
  /** False lets every request pass without asking the service. Default: true. */
  readonly enabled?: boolean;
  /** URL of the service's HTTP API. Default: the environment variable `TIDEGATE_URL`, else `http://localhost:8080`. */
  readonly url?: string;
  /** Bearer token, if the service requires one. Default: the environment variable `TIDEGATE_TOKEN`. */
  readonly token?: string;
  /** Milliseconds until a decision has to be made; then the fallback decides. Default: 250. */
  readonly deadlineMs?: number;
  /** Limits in code, such as `"10/minute;200/hour"`. Give either these or `descriptors`. */
  readonly limits?: ValueOrFunction<string | readonly Limit[], C>;
  /** The domain of the rules. Default: `'apps'`, which accepts limits in code. */
  readonly domain?: string;
  /** Descriptors that the rules of the service match, in place of `limits`. */
  readonly descriptors?: ValueOrFunction<readonly Descriptor[], C>;
  /**
   * Name of the counters. Limiters with the same name share the counters of equal limits. Default: the template of
   * the route where there is one, else each limiter has counters of its own.
   */
  readonly name?: string;
  /** Label of the policy in headers; it does not change which counter is used. Default: the window. */
  readonly identifier?: ValueOrFunction<string, C>;
  /** Returns the key that tells clients apart; undefined or `''` stands for the address. Default: the address. */
  readonly key?: (context: C) => string | undefined | Promise<string | undefined>;
  /** Bits of the networks that IPv6 addresses are grouped by. Default: 56. */
  readonly ipv6Prefix?: ValueOrFunction<number, C>;
  /** Units that a request costs. Default: 1. */
  readonly cost?: ValueOrFunction<number, C>;
  /** Returns true for requests that are not limited. */
  readonly skip?: (context: C) => boolean | Promise<boolean>;
  /** What decides if the service cannot be reached or is too slow. Default: that of the client. */
  readonly fallback?: Fallback;
  /** Charges the cost as an estimate, which the app settles later. Default: false. */
  readonly reserve?: boolean;
  /** Milliseconds until an estimate can no longer be settled. Default: 60,000. */
  readonly reserveTtlMs?: number;
  /** Which `RateLimit` headers are sent. Default: `'draft-11'`. */
  readonly standardHeaders?: StandardHeaders;
  /** Whether `X-RateLimit-*` headers are sent. Default: true. */
  readonly legacyHeaders?: boolean;
  /** Returns another response to a denial; undefined keeps that of the service. */
  readonly onReject?: (decision: Decision, context: C) => Reply | undefined | Promise<Reply | undefined>;
  /** Whether to warn about likely mistakes: all of them, or by code. Default: true. */
  readonly validate?: boolean | Readonly<Record<string, boolean>>;
  /** Receives warnings and errors. Default: `console`. */
  readonly logger?: Logger;
}
