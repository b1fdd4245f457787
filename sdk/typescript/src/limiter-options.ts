import type { Tidegate } from './client.js';
import type { ClientIpOptions, HeaderSource } from './client-ip.js';
import type { Decision } from './decision.js';
import type { Descriptor } from './descriptor.js';
import type { Fallback } from './fallback.js';
import type { StandardHeaders } from './headers.js';
import type { Limit } from './limits.js';
import type { Reply } from './outcome.js';
import type { Logger } from './warnings.js';

/** A request as far as a limiter needs to know it, whatever the framework. */
export interface PlainRequest {
  /** In capital letters. */
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** Method and template of the route, where the framework knows them: `GET /users/:id`. Never the path itself. */
  readonly template?: string;
  /** The address at the other end of the connection; undefined for a Unix socket. */
  readonly peer: string | undefined;
  /** As pairs in the order they came, or as Node's object. */
  readonly headers: HeaderSource;
  /** The framework's own object, by which a request that is counted twice is noticed. */
  readonly identity?: object;
}

/** A value, or a function of the request that returns it now or later. */
export type Given<C, T> = T | ((context: C) => T | Promise<T>);

/** @internal The value itself, whichever way it is given. */
export async function given<C, T>(value: Given<C, T> | undefined, context: C): Promise<T | undefined> {
  return typeof value === 'function' ? (value as (context: C) => T | Promise<T>)(context) : value;
}

/** How a limiter decides. `C` is what its functions are called with. */
export interface LimiterOptions<C = PlainRequest> extends Omit<ClientIpOptions, 'ipv6Prefix'> {
  /** Whom to ask; else there is one client for each `url`. */
  readonly client?: Tidegate;
  /** False lets everything pass, and asks nobody; true unless told. */
  readonly enabled?: boolean;
  /** Of the service's HTTP API; the variable `TIDEGATE_URL` unless told, else `http://localhost:8080`. */
  readonly url?: string;
  /** A bearer token, if the service wants one; the variable `TIDEGATE_TOKEN` unless told. */
  readonly token?: string;
  /** How long a decision may take; 250 ms unless told. */
  readonly deadlineMs?: number;
  /** `"10/minute;200/hour"`; travels with each request. */
  readonly limits?: Given<C, string | readonly Limit[]>;
  /** Of the rules; `apps` unless told. */
  readonly domain?: string;
  /** In place of route and client; then the rules of the service apply, not `limits`. */
  readonly descriptors?: Given<C, readonly Descriptor[]>;
  /**
   * What is limited. Limiters that share a name share the counters of equal limits. Without one, a limiter
   * counts by the template of the route where there is one, else by itself, whatever the path.
   */
  readonly name?: string;
  /** A label for the policy in headers; it is no part of the counter. */
  readonly identifier?: Given<C, string>;
  /** Who is limited; the client's address unless told, and where this returns undefined or nothing (`''`). */
  readonly key?: (context: C) => string | undefined | Promise<string | undefined>;
  /** Addresses of version 6 are counted by networks of so many bits; 56 unless told. */
  readonly ipv6Prefix?: Given<C, number>;
  /** Units a request takes; 1 unless told. */
  readonly cost?: Given<C, number>;
  /** Requests that are not limited at all. */
  readonly skip?: (context: C) => boolean | Promise<boolean>;
  /** Who decides if the service does not; as the client has it unless told. */
  readonly fallback?: Fallback;
  /** Takes the cost as an estimate that is settled later. */
  readonly reserve?: boolean;
  /** How long it can be settled; 60 s unless told. */
  readonly reserveTtlMs?: number;
  /** Which `RateLimit` headers are sent; `draft-11` unless told. */
  readonly standardHeaders?: StandardHeaders;
  /** Whether `X-RateLimit-*` are sent; true unless told. */
  readonly legacyHeaders?: boolean;
  /** Makes the answer to a denial; undefined leaves it as it is. */
  readonly onReject?: (decision: Decision, context: C) => Reply | undefined | Promise<Reply | undefined>;
  /** Whether to warn of mistakes: of all, or by code. */
  readonly validate?: boolean | Readonly<Record<string, boolean>>;
  /** Where warnings go; `console` unless told. */
  readonly logger?: Logger;
}
