import { Tidegate } from './client.js';
import { clientFor } from './client-pool.js';
import { fallbackOf, type CheckOptions } from './client-options.js';
import { ClientIpFinder, ipKey, isAddress, type ClientIp } from './client-ip.js';
import type { Decision } from './decision.js';
import { checkBodyOf, DEFAULT_DOMAIN, withValues, type CheckRequest, type Descriptor } from './descriptor.js';
import { RefusedError, TidegateError, UnavailableError } from './errors.js';
import { localCharges, type Fallback } from './fallback.js';
import { bodyOf, headersOf } from './headers.js';
import { checkedLimits } from './limit-numbers.js';
import { resolve, type LimiterOptions, type PlainRequest } from './limiter-options.js';
import { limitsOf } from './limits.js';
import { denialOf, type Outcome } from './outcome.js';
import type { Reservation } from './reservation.js';
import { unnamedScope, type UnnamedScope } from './scope.js';
import { sanitizeValue } from './value.js';
import { noteCreated, readsSpoofableHeader, warnOnce, withinRequest, type Logger, type WarningCode } from './warnings.js';

/** The checks that were made for a request so far. */
const charged = new WeakMap<object, CheckRequest[]>();

/** The address of a connection that has none. */
const NO_ADDRESS = 'unknown';

/**
 * A rate limiter for any framework: it takes a plain request, and returns what to do with it.
 *
 * ```ts
 * const limiter = new Limiter({ name: 'api', limits: '10/minute' });
 * const outcome = await limiter.decide({ method: 'GET', path: '/', peer: socket.remoteAddress, headers });
 * if (outcome.kind === 'deny') respond(outcome.status, outcome.headers, outcome.body);
 * ```
 *
 * Create it when the app starts. `C` is the type that the functions among the options are called with.
 */
export class Limiter<C = PlainRequest> {
  /** The client of the service. */
  readonly client: Tidegate;
  readonly #options: LimiterOptions<C>;
  readonly #clientIp: ClientIpFinder;
  readonly #logger: Logger;
  readonly #loggedRefusals = new Set<string>();
  /** The scope of its counters if there is neither a name nor a template. */
  readonly #unnamed: UnnamedScope | undefined;

  constructor(options: LimiterOptions<C>) {
    if ((options.limits === undefined) === (options.descriptors === undefined)) {
      throw new TidegateError('a limiter needs either limits, such as "10/minute", or descriptors that the rules of the service match');
    }
    // Invalid options are errors when the app starts, not when the first request comes.
    const { limits, fallback, name, ipv6Prefix, ...rest } = options;
    const parsed = limits === undefined || typeof limits === 'function' ? limits : checkedLimits(limitsOf(limits));
    if (fallback !== undefined) fallbackOf(fallback);
    if (name !== undefined && (typeof name !== 'string' || name === '')) {
      throw new TidegateError('name must be a non-empty string, the same for every request');
    }
    this.#options = parsed === undefined ? options : { ...options, limits: parsed };
    this.#unnamed = name !== undefined || parsed === undefined ? undefined : unnamedScope(typeof parsed === 'function' ? undefined : parsed, withinRequest());
    this.#clientIp = new ClientIpFinder({ ...rest, ...(typeof ipv6Prefix === 'number' ? { ipv6Prefix } : {}) });
    this.#logger = options.logger ?? console;
    this.client = options.enabled === false ? new Tidegate({ enabled: false }) : options.client ?? clientFor(options);
    this.#warnAtStart();
  }

  /**
   * Decides a request and charges it, and returns what to do with it.
   *
   * @param context What the functions among the options are called with; by default the request itself.
   */
  async decide(request: PlainRequest, context: C = request as unknown as C): Promise<Outcome> {
    const options = this.#options;
    if (!this.client.enabled) return this.#pass();
    if (await options.skip?.(context)) return { kind: 'skip' };
    const { check, key } = await this.#checkOf(request, context);
    this.#warnOfDoubleCharge(request.identity, check);
    const { decision, reservation } = await this.#charge(check);
    const label = await this.#label(context);
    const headers = headersOf(decision, {
      standardHeaders: options.standardHeaders ?? 'draft-11',
      legacyHeaders: options.legacyHeaders ?? true,
      label,
    });
    if (decision.allowed) return { kind: 'pass', decision, headers, key, reservation };
    const reply = await options.onReject?.(decision, context);
    return { kind: 'deny', decision, key, ...denialOf(decision, headers, { reply, body: bodyOf(decision, label) }) };
  }

  /**
   * Returns the state of a client by its key, without charging it. `template` names the route, for a limiter
   * without a name whose requests have one.
   *
   * ```ts
   * const { limits } = await limiter.getKey('192.0.2.7');
   * ```
   *
   * @throws {RefusedError} if the service rejects the request as invalid.
   */
  async getKey(key: string, template?: string): Promise<Decision> {
    return this.client.check({ ...this.#countersOf(key, template), cost: 0 }, this.#checkOptions());
  }

  /**
   * Gives a client all of its limits back, in the service and in this process.
   *
   * ```ts
   * await limiter.resetKey('192.0.2.7');
   * ```
   *
   * The error of a call that is not awaited is logged as a warning of the client, and does not end the process.
   *
   * @throws {UnavailableError} if the service cannot be reached; the counters of this process are reset then.
   * @throws {RefusedError} if the service rejects the request; the counters of this process are reset then.
   */
  resetKey(key: string, template?: string): Promise<void> {
    const reset = this.#reset(key, template);
    // Apps that come from express-rate-limit do not await it, and Node ends with an unhandled rejection.
    reset.catch((error: unknown) => this.client.logger.warn(`tidegate: a key was not reset: ${messageOf(error)}`));
    return reset;
  }

  async #reset(key: string, template: string | undefined): Promise<void> {
    // More than any limit has; nothing is given back above full.
    const all = { ...this.#countersOf(key, template), cost: Number.MAX_SAFE_INTEGER };
    // Requests that the service refused were counted in this process.
    this.client.refundLocally(all, this.#options.fallback);
    const left = await this.client.refund(all, this.#checkOptions());
    if (left.length === 0 && this.client.enabled) {
      throw new UnavailableError('connection', 'the service cannot be reached, so its counters for the key are not reset');
    }
  }

  /** Logs a warning once per process, unless the option `validate` switches it off. */
  warn(code: WarningCode): void {
    const { validate = true } = this.#options;
    const enabled = typeof validate === 'boolean' ? validate : validate[code] ?? validate['default'] ?? true;
    if (enabled) warnOnce(code, this.#logger);
  }

  /** Warns if only its order in the code tells this limiter from another. For frameworks without route templates. */
  warnOfTwin(): void {
    // Within one process the order is always the same.
    if (this.#unnamed?.twin && !this.client.isLocal) this.warn('TIDEGATE_UNNAMED_TWIN');
  }

  /** Lets a request pass without a decision of the service. */
  async #pass(): Promise<Outcome> {
    const nothing = { descriptors: [] };
    const reservation = this.#options.reserve ? await this.client.reserve(nothing) : undefined;
    const decision = reservation?.decision ?? (await this.client.check(nothing));
    return { kind: 'pass', decision, headers: [], key: undefined, reservation };
  }

  async #checkOf(request: PlainRequest, context: C): Promise<{ check: CheckRequest; key: string | undefined }> {
    const options = this.#options;
    const domain = options.domain ?? DEFAULT_DOMAIN;
    const cost = (await resolve(options.cost, context)) ?? 1;
    const descriptors = await resolve(options.descriptors, context);
    if (descriptors) {
      return { check: { domain, descriptors: descriptors.map((one) => withValues(one, sanitizeValue)), cost }, key: undefined };
    }
    const scope = this.#scope(request.template);
    const key = sanitizeValue((await this.#keyOf(context)) ?? (await this.#addressOf(request, context)));
    const limits = (await resolve(options.limits, context)) ?? [];
    return { check: { domain, descriptors: [[['route', scope], ['client', key]]], limits, cost }, key };
  }

  /** Returns the scope of the counters: the name, the template, or the limiter itself. Never the path, which clients choose. */
  #scope(template: string | undefined): string {
    const { name } = this.#options;
    if (name === undefined && template === undefined) this.warnOfTwin();
    return sanitizeValue(name ?? template ?? this.#unnamed?.scope ?? '');
  }

  /** Returns a check of the counters that requests with a key are charged to. */
  #countersOf(key: string, template: string | undefined): CheckRequest & { readonly descriptors: readonly Descriptor[] } {
    const { domain = DEFAULT_DOMAIN, limits, key: keyOption, ipv6Prefix } = this.#options;
    if (typeof key !== 'string' || key === '') throw new TidegateError('a key must be a non-empty string');
    if (limits === undefined) throw new TidegateError('a limiter with descriptors has no keys: use client.check with cost 0, and client.refund');
    if (typeof limits === 'function') throw new TidegateError('limits that are a function of the request are unknown without a request: use client.check with cost 0, and client.refund');
    const asAddress = !keyOption && isAddress(key);
    if (asAddress && typeof ipv6Prefix === 'function' && key.includes(':')) {
      throw new TidegateError('the size of IPv6 networks is a function of the request here: give the network, such as ipKeyGenerator(ip, 64)');
    }
    const client = sanitizeValue(asAddress ? ipKey(key, typeof ipv6Prefix === 'number' ? ipv6Prefix : undefined) : key);
    return { domain, descriptors: [[['route', this.#scope(template)], ['client', client]]], limits };
  }

  #checkOptions(): CheckOptions {
    const { fallback } = this.#options;
    return fallback === undefined ? {} : { fallback };
  }

  /** Returns the key from the key function; undefined if the address is to be used. */
  async #keyOf(context: C): Promise<string | undefined> {
    const key = (await this.#options.key?.(context)) ?? undefined;
    if (key !== undefined && typeof key !== 'string') {
      throw new TidegateError(`the key function must return a string, or undefined for the address, got ${typeof key}`);
    }
    // Otherwise all clients that send an empty header would share one key.
    return key === '' ? undefined : key;
  }

  /** Returns the key for the address of the client: the address, or its network for IPv6. */
  async #addressOf({ peer, headers }: PlainRequest, context: C): Promise<string> {
    const { ipv6Prefix } = this.#options;
    const found: ClientIp = this.#clientIp.find(peer || NO_ADDRESS, headers);
    if (!isAddress(found.ip)) this.warn('TIDEGATE_NO_ADDRESS');
    if (typeof ipv6Prefix !== 'function' || !found.ip.includes(':')) return found.key;
    return ipKey(found.ip, await ipv6Prefix(context));
  }

  async #label(context: C): Promise<string | undefined> {
    const label: unknown = await resolve(this.#options.identifier, context);
    if (label !== undefined && typeof label !== 'string') throw new TidegateError(`identifier must be a string, got ${typeof label}`);
    return label ? sanitizeValue(label) : undefined;
  }

  async #charge(check: CheckRequest): Promise<{ decision: Decision; reservation: Reservation | undefined }> {
    const { fallback, reserve, reserveTtlMs } = this.#options;
    const options = this.#checkOptions();
    try {
      if (!reserve) return { decision: await this.client.check(check, options), reservation: undefined };
      const reservation = await this.client.reserve(
        { ...check, ...(reserveTtlMs === undefined ? {} : { ttlMs: reserveTtlMs }) },
        options,
      );
      return { decision: reservation.decision, reservation };
    } catch (error) {
      // A mistake in the options or the rules: it is logged, and must not take the app down.
      if (!(error instanceof RefusedError)) throw error;
      this.#logRefusal(error, fallback);
      if (!reserve) return { decision: this.client.checkLocally(check, fallback), reservation: undefined };
      const reservation = this.client.reserveLocally(check, fallback);
      return { decision: reservation.decision, reservation };
    }
  }

  /** Logs each reason of a refusal once, not with every request. */
  #logRefusal(error: RefusedError, fallback: Fallback | undefined): void {
    if (this.#loggedRefusals.has(error.detail) || this.#loggedRefusals.size >= MAX_LOGGED_REFUSALS) return;
    this.#loggedRefusals.add(error.detail);
    const by = fallback === undefined ? 'the fallback' : `the fallback (${fallback})`;
    this.#logger.error(`${error.message}; until this is fixed, ${by} decides`);
  }

  /** Warns if a request is charged to one counter twice. */
  #warnOfDoubleCharge(identity: object | undefined, check: CheckRequest): void {
    if (!identity) return;
    const before = charged.get(identity);
    if (!before) {
      charged.set(identity, [check]);
      return;
    }
    const counters = new Set(before.flatMap(counterNames));
    if (counterNames(check).some((counter) => counters.has(counter))) this.warn('TIDEGATE_DOUBLE_COUNT');
    before.push(check);
  }

  #warnAtStart(): void {
    const { validate, key, ipv6Prefix } = this.#options;
    if (validate !== false && this.client.enabled && !this.client.isLocal) noteCreated(this, this.#logger);
    if (this.#clientIp.trustsAll) this.warn('TIDEGATE_TRUST_ALL');
    if (typeof ipv6Prefix === 'number' && ipv6Prefix > 64) this.warn('TIDEGATE_IPV6_UNGROUPED');
    if (key && readsSpoofableHeader(key)) this.warn('TIDEGATE_SPOOFABLE_KEY');
  }
}

/** Returns a name for each counter of a check; one for each descriptor that rules of the service apply to. */
function counterNames(request: CheckRequest): string[] {
  const body = checkBodyOf(request);
  return body.descriptors.flatMap((descriptor) => {
    if (!descriptor.limits) return [JSON.stringify([body.domain, descriptor.entries])];
    return localCharges({ ...body, descriptors: [descriptor] }, undefined).map(({ key }) => key);
  });
}

/** Different refusals that a limiter logs at most. */
const MAX_LOGGED_REFUSALS = 100;

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
