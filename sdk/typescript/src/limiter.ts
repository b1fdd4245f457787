import { Tidegate } from './client.js';
import { clientFor } from './client-pool.js';
import { fallbackOf, type CheckOptions } from './client-options.js';
import { ClientIpFinder, ipKey, isAddress, type ClientIp } from './client-ip.js';
import type { Decision } from './decision.js';
import { askedOf, DEFAULT_DOMAIN, withValues, type CheckRequest, type Descriptor } from './descriptor.js';
import { RefusedError, TidegateError, UnavailableError } from './errors.js';
import { localCharges, type Fallback } from './fallback.js';
import { bodyOf, headersOf } from './headers.js';
import { checkedLimits } from './limit-numbers.js';
import { given, type LimiterOptions, type PlainRequest } from './limiter-options.js';
import { limitsOf } from './limits.js';
import { answerOf, type Outcome } from './outcome.js';
import type { Reservation } from './reservation.js';
import { ownScope, type OwnScope } from './scope.js';
import { sendable } from './value.js';
import { noteCreated, readsSpoofableHeader, warnOnce, withinRequest, type Logger, type WarningCode } from './warnings.js';

/** Requests and what they were charged for. */
const charged = new WeakMap<object, CheckRequest[]>();

/** Stands for the address of a connection that has none. */
const NO_ADDRESS = 'unknown';

/**
 * The middleware without a framework: takes a request, returns what to do with it.
 *
 * ```ts
 * const limiter = new Limiter({ name: 'api', limits: '10/minute' });
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
  /** What it counts under without a name and a template. */
  readonly #own: OwnScope | undefined;

  constructor(options: LimiterOptions<C>) {
    if ((options.limits === undefined) === (options.descriptors === undefined)) {
      throw new TidegateError('a limiter needs either limits, such as "10/minute", or descriptors for which the service has rules');
    }
    // Mistakes are told when the app starts, not when the first request comes.
    const { limits, fallback, name, ipv6Prefix, ...rest } = options;
    const read = limits === undefined || typeof limits === 'function' ? limits : checkedLimits(limitsOf(limits));
    if (fallback !== undefined) fallbackOf(fallback);
    if (name !== undefined && (typeof name !== 'string' || name === '')) {
      throw new TidegateError('name must be a text that is not empty, and the same for every request');
    }
    this.#options = read === undefined ? options : { ...options, limits: read };
    this.#own = name !== undefined || read === undefined ? undefined : ownScope(typeof read === 'function' ? undefined : read, withinRequest());
    this.#clientIp = new ClientIpFinder({ ...rest, ...(typeof ipv6Prefix === 'number' ? { ipv6Prefix } : {}) });
    this.#logger = options.logger ?? console;
    this.client = options.enabled === false ? new Tidegate({ enabled: false }) : options.client ?? clientFor(options);
    this.#warnAtStart();
  }

  /** Charges a request; `context` is what the functions among the options are called with. */
  async decide(request: PlainRequest, context: C = request as unknown as C): Promise<Outcome> {
    const options = this.#options;
    if (!this.client.enabled) return this.#pass();
    if (await options.skip?.(context)) return { kind: 'skip' };
    const { asked, key } = await this.#asked(request, context);
    this.#noticeDouble(request.identity, asked);
    const { decision, reservation } = await this.#charge(asked);
    const label = await this.#label(context);
    const headers = headersOf(decision, {
      standardHeaders: options.standardHeaders ?? 'draft-11',
      legacyHeaders: options.legacyHeaders ?? true,
      label,
    });
    if (decision.allowed) return { kind: 'pass', decision, headers, key, reservation };
    const reply = await options.onReject?.(decision, context);
    return { kind: 'deny', decision, key, ...answerOf(decision, headers, { reply, body: bodyOf(decision, label) }) };
  }

  /**
   * How a client stands, by its key; nothing is charged. `template` says which route it is, for a limiter
   * without a name whose requests have one.
   *
   * @throws {RefusedError} if the service refuses it.
   */
  async getKey(key: string, template?: string): Promise<Decision> {
    return this.client.check({ ...this.#counters(key, template), cost: 0 }, this.#how());
  }

  /**
   * Gives a client all of its limits back. What this process counts is reset whatever the service says.
   *
   * Await it. The error of a call that nobody awaits is only logged, as a warning of the client's.
   *
   * @throws {UnavailableError} if the service does not answer: then only what this process counts is reset.
   * @throws {RefusedError} if the service refuses it; the same holds.
   */
  resetKey(key: string, template?: string): Promise<void> {
    const reset = this.#reset(key, template);
    // Apps that come from express-rate-limit do not await it, and Node ends with a rejection that nobody sees to.
    reset.catch((error: unknown) => this.client.logger.warn(`tidegate: a key was not reset: ${messageOf(error)}`));
    return reset;
  }

  async #reset(key: string, template: string | undefined): Promise<void> {
    // More than any limit has: nothing is given back above full.
    const all = { ...this.#counters(key, template), cost: Number.MAX_SAFE_INTEGER };
    // Requests that the service refuses are counted here, too.
    this.client.refundLocally(all, this.#options.fallback);
    const left = await this.client.refund(all, this.#how());
    if (left.length === 0 && this.client.enabled) {
      throw new UnavailableError('connection', 'the service cannot be reached: what it counts for the key is not reset');
    }
  }

  /** Says it once per process, unless it was switched off. */
  warn(code: WarningCode): void {
    const { validate = true } = this.#options;
    const wanted = typeof validate === 'boolean' ? validate : validate[code] ?? validate['default'] ?? true;
    if (wanted) warnOnce(code, this.#logger);
  }

  /** Warns if only the order in the code tells it from another limiter. Call it where requests have no template. */
  warnOfTwin(): void {
    // Within one process the order is always the same.
    if (this.#own?.twin && !this.client.isLocal) this.warn('TIDEGATE_UNNAMED_TWIN');
  }

  /** Lets a request pass without asking anybody. */
  async #pass(): Promise<Outcome> {
    const nothing = { descriptors: [] };
    const reservation = this.#options.reserve ? await this.client.reserve(nothing) : undefined;
    const decision = reservation?.decision ?? (await this.client.check(nothing));
    return { kind: 'pass', decision, headers: [], key: undefined, reservation };
  }

  async #asked(request: PlainRequest, context: C): Promise<{ asked: CheckRequest; key: string | undefined }> {
    const options = this.#options;
    const domain = options.domain ?? DEFAULT_DOMAIN;
    const cost = (await given(options.cost, context)) ?? 1;
    const descriptors = await given(options.descriptors, context);
    if (descriptors) {
      return { asked: { domain, descriptors: descriptors.map((one) => withValues(one, sendable)), cost }, key: undefined };
    }
    const scope = this.#scope(request.template);
    const key = sendable((await this.#keyOf(context)) ?? (await this.#addressOf(request, context)));
    const limits = (await given(options.limits, context)) ?? [];
    return { asked: { domain, descriptors: [[['route', scope], ['client', key]]], limits, cost }, key };
  }

  /** What is limited: by name, by template, or by the limiter itself. Never by the path, which clients choose. */
  #scope(template: string | undefined): string {
    const { name } = this.#options;
    if (name === undefined && template === undefined) this.warnOfTwin();
    return sendable(name ?? template ?? this.#own?.scope ?? '');
  }

  /** The counters of a key, as requests are charged to them. */
  #counters(key: string, template: string | undefined): CheckRequest & { readonly descriptors: readonly Descriptor[] } {
    const { domain = DEFAULT_DOMAIN, limits, key: keyOption, ipv6Prefix } = this.#options;
    if (typeof key !== 'string' || key === '') throw new TidegateError('a key must be a text, and not an empty one');
    if (limits === undefined) throw new TidegateError('descriptors of requests have no key: use client.check with cost 0, and client.refund');
    if (typeof limits === 'function') throw new TidegateError('limits that are a function of the request are not known without one: use client.check with cost 0, and client.refund');
    const asAddress = !keyOption && isAddress(key);
    if (asAddress && typeof ipv6Prefix === 'function' && key.includes(':')) {
      throw new TidegateError('the network of an address is a function of the request here: give the network, such as ipKeyGenerator(ip, 64)');
    }
    const client = sendable(asAddress ? ipKey(key, typeof ipv6Prefix === 'number' ? ipv6Prefix : undefined) : key);
    return { domain, descriptors: [[['route', this.#scope(template)], ['client', client]]], limits };
  }

  #how(): CheckOptions {
    const { fallback } = this.#options;
    return fallback === undefined ? {} : { fallback };
  }

  /** Who is limited as the app says; undefined if it does not know. */
  async #keyOf(context: C): Promise<string | undefined> {
    const key = (await this.#options.key?.(context)) ?? undefined;
    if (key !== undefined && typeof key !== 'string') {
      throw new TidegateError(`the function that makes keys must return a string, or undefined for the address, got ${typeof key}`);
    }
    // A header that is there and empty would else be one client, of all who send it so.
    return key === '' ? undefined : key;
  }

  /** The client's address, or its network. */
  async #addressOf({ peer, headers }: PlainRequest, context: C): Promise<string> {
    const { ipv6Prefix } = this.#options;
    const found: ClientIp = this.#clientIp.find(peer || NO_ADDRESS, headers);
    if (!isAddress(found.ip)) this.warn('TIDEGATE_NO_ADDRESS');
    if (typeof ipv6Prefix !== 'function' || !found.ip.includes(':')) return found.key;
    return ipKey(found.ip, await ipv6Prefix(context));
  }

  async #label(context: C): Promise<string | undefined> {
    const label: unknown = await given(this.#options.identifier, context);
    if (label !== undefined && typeof label !== 'string') throw new TidegateError(`identifier must be a text, got ${typeof label}`);
    return label ? sendable(label) : undefined;
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

  /** Tells of a request that is charged to one counter twice. */
  #noticeDouble(identity: object | undefined, asked: CheckRequest): void {
    if (!identity) return;
    const before = charged.get(identity);
    if (!before) {
      charged.set(identity, [asked]);
      return;
    }
    const counters = new Set(before.flatMap(countersOf));
    if (countersOf(asked).some((counter) => counters.has(counter))) this.warn('TIDEGATE_DOUBLE_COUNT');
    before.push(asked);
  }

  #warnAtStart(): void {
    const { validate, key, ipv6Prefix } = this.#options;
    if (validate !== false && this.client.enabled && !this.client.isLocal) noteCreated(this, this.#logger);
    if (this.#clientIp.trustsAll) this.warn('TIDEGATE_TRUST_ALL');
    if (typeof ipv6Prefix === 'number' && ipv6Prefix > 64) this.warn('TIDEGATE_IPV6_UNGROUPED');
    if (key && readsSpoofableHeader(key)) this.warn('TIDEGATE_SPOOFABLE_KEY');
  }
}

/** What tells the counters of a request apart; one for each descriptor that rules of the service apply to. */
function countersOf(request: CheckRequest): string[] {
  const asked = askedOf(request);
  return asked.descriptors.flatMap((descriptor) => {
    if (!descriptor.limits) return [JSON.stringify([asked.domain, descriptor.entries])];
    return localCharges({ ...asked, descriptors: [descriptor] }, undefined).map(({ key }) => key);
  });
}

/** So many different refusals are told. */
const MOST_TOLD = 100;

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
