import { fallbackOf, Tidegate, type CheckOptions } from './client.js';
import { ClientIpFinder, ipKey } from './client-ip.js';
import { decidingLimit, type Decision } from './decision.js';
import { DEFAULT_DOMAIN, withValues, type CheckRequest, type Descriptor } from './descriptor.js';
import { RefusedError, TidegateError, UnavailableError } from './errors.js';
import type { Fallback } from './fallback.js';
import { headersOf } from './headers.js';
import { given, type LimiterOptions, type PlainRequest } from './limiter-options.js';
import { limitsOf } from './limits.js';
import { answerOf, type Outcome } from './outcome.js';
import type { Reservation } from './reservation.js';
import { ChargedRoutes } from './routes.js';
import { sendable } from './value.js';
import { noteCreated, readsSpoofableHeader, warnOnce, type Logger, type WarningCode } from './warnings.js';

/** Requests and what they were charged for. */
const charged = new WeakMap<object, CheckRequest[]>();

/**
 * The middleware without a framework: takes a request, answers what to do with it.
 *
 * ```ts
 * const limiter = new Limiter({ limits: '10/minute' });
 * const outcome = await limiter.decide({ method: 'GET', path: '/', peer: socket.remoteAddress, headers });
 * if (outcome.kind === 'deny') respond(outcome.status, outcome.headers, outcome.body);
 * ```
 */
export class Limiter<C = PlainRequest> {
  /** Whom it asks. */
  readonly client: Tidegate;
  readonly #options: LimiterOptions<C>;
  readonly #clientIp: ClientIpFinder;
  readonly #logger: Logger;
  readonly #told = new Set<string>();
  readonly #routes = new ChargedRoutes();

  constructor(options: LimiterOptions<C>) {
    if ((options.limits === undefined) === (options.descriptors === undefined)) {
      throw new TidegateError('a limiter needs either limits, such as "10/minute", or descriptors for which the service has rules');
    }
    // Mistakes are told when the app starts, not when the first request comes.
    const { limits, fallback } = options;
    const readLimits = typeof limits === 'string' ? limitsOf(limits) : limits;
    if (fallback !== undefined) fallbackOf(fallback);
    this.#options = readLimits === undefined ? options : { ...options, limits: readLimits };
    this.#clientIp = new ClientIpFinder(options);
    this.#logger = options.logger ?? console;
    this.client = options.client ?? clientFor(options);
    this.#warnAtStart();
  }

  /** Charges a request; `context` is what the functions among the options are called with. */
  async decide(request: PlainRequest, context: C = request as unknown as C): Promise<Outcome> {
    const options = this.#options;
    if (await options.skip?.(context)) return { kind: 'skip' };
    const { asked, key } = await this.#asked(request, context);
    this.#noticeDouble(request.identity, asked);
    const { decision, reservation } = await this.#charge(asked);
    const headers = headersOf(decision, {
      standardHeaders: options.standardHeaders ?? 'draft-11',
      legacyHeaders: options.legacyHeaders ?? true,
    });
    if (decision.allowed) return { kind: 'pass', decision, headers, key, reservation };
    const reply = await options.onReject?.(decision, context);
    return { kind: 'deny', decision, key, ...answerOf(decision, headers, reply) };
  }

  /**
   * How a client stands, by its key; nothing is charged. `route` is what is limited; where neither it nor
   * the option says, all routes that this limiter has charged are looked at, and the one with least left
   * is told of.
   *
   * @throws {RefusedError} if the service refuses it.
   */
  async getKey(key: string, route?: string): Promise<Decision> {
    const { descriptors, ...rest } = this.#counters(key, route);
    const decisions = await Promise.all(
      descriptors.map((descriptor) => this.client.check({ ...rest, descriptor, cost: 0 }, this.#how())),
    );
    // Where nobody counted, nothing is known of the whole.
    const left = (decision: Decision): number => decidingLimit(decision)?.remaining ?? -1;
    return decisions.reduce((least, one) => (left(least) <= left(one) ? least : one));
  }

  /**
   * Gives a client all of its limits back, on the routes that {@link getKey} looks at. What this process
   * counts is reset whatever the service says.
   *
   * Await it. The error of a call that nobody awaits is only logged, as a warning of the client's.
   *
   * @throws {UnavailableError} if the service does not answer: then only what this process counts is reset.
   * @throws {RefusedError} if the service refuses it; the same holds.
   */
  resetKey(key: string, route?: string): Promise<void> {
    const reset = this.#reset(key, route);
    // Apps that come from express-rate-limit do not await it, and Node ends with a rejection that nobody sees to.
    reset.catch((error: unknown) => this.client.logger.warn(`tidegate: a key was not reset: ${messageOf(error)}`));
    return reset;
  }

  async #reset(key: string, route: string | undefined): Promise<void> {
    // More than any limit has: nothing is given back above full.
    const all = { ...this.#counters(key, route), cost: Number.MAX_SAFE_INTEGER };
    // Requests that the service refuses are counted here, too.
    this.client.refundLocally(all, this.#options.fallback);
    const left = await this.client.refund(all, this.#how());
    if (left.length === 0) {
      throw new UnavailableError('connection', 'the service cannot be reached: what it counts for the key is not reset');
    }
  }

  /** Says it once per process, unless it was switched off. */
  warn(code: WarningCode): void {
    const { validate = true } = this.#options;
    const wanted = typeof validate === 'boolean' ? validate : validate[code] ?? validate['default'] ?? true;
    if (wanted) warnOnce(code, this.#logger);
  }

  async #asked(request: PlainRequest, context: C): Promise<{ asked: CheckRequest; key: string | undefined }> {
    const options = this.#options;
    const domain = options.domain ?? DEFAULT_DOMAIN;
    const cost = (await given(options.cost, context)) ?? 1;
    const descriptors = await given(options.descriptors, context);
    if (descriptors) {
      return { asked: { domain, descriptors: descriptors.map((one) => withValues(one, sendable)), cost }, key: undefined };
    }
    const route = sendable((await given(options.route, context)) ?? request.route ?? `${request.method} ${request.path}`);
    this.#routes.add(route);
    const key = sendable((await this.#keyOf(context)) ?? this.#clientIp.find(request.peer, request.headers).key);
    const limits = (await given(options.limits, context)) ?? [];
    return { asked: { domain, descriptors: [[['route', route], ['client', key]]], limits, cost }, key };
  }

  /** The counters of a key, as requests are charged to them. */
  #counters(key: string, route: string | undefined): CheckRequest & { readonly descriptors: readonly Descriptor[] } {
    const { domain = DEFAULT_DOMAIN, limits, key: keyOption, ipv6Prefix } = this.#options;
    if (typeof key !== 'string' || key === '') throw new TidegateError('a key must be a text, and not an empty one');
    if (limits === undefined) throw new TidegateError('descriptors of requests have no key: use client.check with cost 0, and client.refund');
    if (typeof limits === 'function') throw new TidegateError('limits that are a function of the request are not known without one: use client.check with cost 0, and client.refund');
    const client = sendable(keyOption ? key : ipKey(key, ipv6Prefix));
    const named = route ?? this.#options.route;
    const routes = typeof named === 'string' ? [sendable(named)] : this.#routes.all();
    const descriptors = routes.map((one): Descriptor => [['route', one], ['client', client]]);
    return { domain, descriptors, limits };
  }

  #how(): CheckOptions {
    const { fallback } = this.#options;
    return fallback === undefined ? {} : { fallback };
  }

  /** Who is limited as the app says; undefined if it does not know. */
  async #keyOf(context: C): Promise<string | undefined> {
    const key = (await this.#options.key?.(context)) ?? undefined;
    if (key !== undefined && typeof key !== 'string') {
      throw new TidegateError(`the function that makes keys must answer a string, or undefined for the address, got ${typeof key}`);
    }
    // A header that is there and empty would else be one client, of all who send it so.
    return key === '' ? undefined : key;
  }

  async #charge(asked: CheckRequest): Promise<{ decision: Decision; reservation: Reservation | undefined }> {
    const { fallback, reserve, reserveTtlMs } = this.#options;
    const how = this.#how();
    try {
      if (!reserve) return { decision: await this.client.check(asked, how), reservation: undefined };
      const reservation = await this.client.reserve(
        { ...asked, ...(reserveTtlMs === undefined ? {} : { ttlMs: reserveTtlMs }) },
        how,
      );
      return { decision: reservation.decision, reservation };
    } catch (error) {
      // The app's mistake, as the service sees it: to be mended, but no reason to go down.
      if (!(error instanceof RefusedError)) throw error;
      this.#tell(error, fallback);
      if (!reserve) return { decision: this.client.checkLocally(asked, fallback), reservation: undefined };
      const reservation = this.client.reserveLocally(asked, fallback);
      return { decision: reservation.decision, reservation };
    }
  }

  /** Each thing that the service refuses is told once, and not with every request. */
  #tell(error: RefusedError, fallback: Fallback | undefined): void {
    if (this.#told.has(error.detail) || this.#told.size >= MOST_TOLD) return;
    this.#told.add(error.detail);
    const by = fallback === undefined ? 'the fallback' : `the fallback (${fallback})`;
    this.#logger.error(`${error.message}; until that is mended, requests are decided by ${by}`);
  }

  #noticeDouble(identity: object | undefined, asked: CheckRequest): void {
    if (!identity) return;
    const before = charged.get(identity);
    if (!before) {
      charged.set(identity, [asked]);
      return;
    }
    const same = (one: CheckRequest): boolean =>
      one.domain === asked.domain &&
      JSON.stringify([one.descriptors, one.limits]) === JSON.stringify([asked.descriptors, asked.limits]);
    if (before.some(same)) this.warn('TIDEGATE_DOUBLE_COUNT');
    before.push(asked);
  }

  #warnAtStart(): void {
    const { validate, key, ipv6Prefix = 0 } = this.#options;
    if (validate !== false) noteCreated(this, this.#logger);
    if (this.#clientIp.trustsAll) this.warn('TIDEGATE_TRUST_ALL');
    if (ipv6Prefix > 64) this.warn('TIDEGATE_IPV6_UNGROUPED');
    if (key && readsSpoofableHeader(key)) this.warn('TIDEGATE_SPOOFABLE_KEY');
  }
}

/** So many different refusals are told. */
const MOST_TOLD = 100;

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const clients = new Map<string, Tidegate>();

/** Limiters that ask the same service share a client, so that their checks go in the same batches. */
function clientFor<C>(options: LimiterOptions<C>): Tidegate {
  const { url, token, deadlineMs, logger } = options;
  const make = (): Tidegate =>
    new Tidegate({
      ...(url === undefined ? {} : { url }),
      ...(token === undefined ? {} : { token }),
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
      ...(logger === undefined ? {} : { logger }),
    });
  if (logger) return make();
  const name = JSON.stringify([url, token, deadlineMs]);
  const client = clients.get(name) ?? make();
  clients.set(name, client);
  return client;
}
