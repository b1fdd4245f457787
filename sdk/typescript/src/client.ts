import { Batcher } from './batch.js';
import { Breaker, type Attempt } from './breaker.js';
import { fallbackOf, positive, tokenOf, urlOf, type CheckOptions, type ClientOptions, type LocalOptions } from './client-options.js';
import { decisionOf, failureOf, type ServiceResponse, type Decision, type LimitState } from './decision.js';
import { checkBodyOf, type CheckBody, type CheckRequest } from './descriptor.js';
import { UnavailableError } from './errors.js';
import { LocalLimiter, localCharges, type Fallback, type LocalVerdict } from './fallback.js';
import { checkedLimits } from './limit-numbers.js';
import { limitsOf, type Limit } from './limits.js';
import { acquirePermit, type Permit } from './permit.js';
import { refund } from './refund.js';
import * as render from './render.js';
import { reserve, reserveInProcess, type ReserveRequest, type Reservation } from './reservation.js';
import { Transport } from './transport.js';
import { noteCreated, type Logger } from './warnings.js';

const DEFAULT_DEADLINE_MS = 250;
const DEFAULT_IN_FLIGHT = 2;

/**
 * A client of the service. Create one when the app starts, and share it.
 *
 * ```ts
 * const client = new Tidegate({ url: 'http://localhost:8080' });
 * const decision = await client.check({ descriptor: { user: 'ann' }, limits: '10/minute' });
 * if (!decision.allowed) console.log(`retry in ${decision.retryAfter} s`);
 * ```
 *
 * Every check returns a decision within the deadline. If the service cannot be reached or is too slow, the
 * fallback decides.
 */
export class Tidegate {
  /** The URL of the service. */
  readonly url: string;
  /** Receives warnings and errors. */
  readonly logger: Logger;
  readonly #deadlineMs: number;
  readonly #fallback: Fallback;
  readonly #localLimits: readonly Limit[] | undefined;
  readonly #transport: Transport;
  readonly #batcher: Batcher;
  readonly #breaker: Breaker;
  readonly #limiter = new LocalLimiter();
  /** What decides: the service, the counters of this process, or nothing. */
  readonly #mode: 'service' | 'local' | 'disabled';
  readonly #now: () => number;
  #closed = false;

  /** @param inProcess Internal: {@link Tidegate.local} sets it. */
  constructor(options: ClientOptions = {}, inProcess?: { readonly now: () => number }) {
    this.url = urlOf(options.url);
    this.logger = options.logger ?? console;
    this.#mode = inProcess ? 'local' : options.enabled === false ? 'disabled' : 'service';
    this.#now = inProcess?.now ?? wallClock;
    this.#deadlineMs = positive('deadlineMs', options.deadlineMs ?? DEFAULT_DEADLINE_MS);
    this.#fallback = fallbackOf(options.fallback ?? 'local');
    this.#localLimits = options.localLimits === undefined ? undefined : checkedLimits(limitsOf(options.localLimits));
    const token = tokenOf(options.token);
    this.#transport = new Transport({ url: this.url, ...(token === undefined ? {} : { token }) });
    this.#breaker = new Breaker({
      onOpen: () => this.#onOpen(),
      onClose: () => this.logger.warn(`tidegate: the service at ${this.url} responds again`),
    });
    this.#batcher = new Batcher({
      send: (body, timeoutMs) => this.#call('/v1/check', body, timeoutMs, this.#breaker.admit()),
      maxInFlight: positive('maxInFlight', options.maxInFlight ?? DEFAULT_IN_FLIGHT),
    });
    if (this.#mode === 'service') noteCreated(this, this.logger);
  }

  /**
   * Returns a client that counts in this process and needs no service: for tests, and for apps of one process.
   * Limits in code are decided as the service decides them. Rules of a service are not known: requests without
   * limits are counted against `localLimits`, and pass if there are none.
   *
   * ```ts
   * const client = Tidegate.local();
   * app.use(rateLimit({ client, limit: 3 }));
   * beforeEach(() => client.reset());
   * ```
   */
  static local(options: LocalOptions = {}): Tidegate {
    const { now = wallClock, localLimits, logger } = options;
    return new Tidegate({ ...(localLimits === undefined ? {} : { localLimits }), ...(logger === undefined ? {} : { logger }) }, { now });
  }

  /** Whether the client decides; false if it was created with `enabled: false` and lets every request pass. */
  get enabled(): boolean {
    return this.#mode !== 'disabled';
  }

  /** Whether the client counts in this process and uses no service, as {@link Tidegate.local} does. */
  get isLocal(): boolean {
    return this.#mode === 'local';
  }

  /**
   * Forgets everything that this process has counted, so that each test begins with full limits. Counters of
   * the service do not change.
   */
  reset(): void {
    this.#limiter.clear();
  }

  /**
   * Decides whether a request may pass, and charges it if so. Checks made at the same time are sent as one batch.
   *
   * ```ts
   * const decision = await client.check({ descriptor: { user: 'ann' }, limits: '10/minute;200/hour' });
   * ```
   *
   * A denial is a {@link Decision}, not an error. If the service cannot be reached, the fallback decides, and
   * `source` of the decision says so.
   *
   * @throws {RefusedError} if the service rejects the request as invalid.
   */
  async check(request: CheckRequest, options: CheckOptions = {}): Promise<Decision> {
    const body = checkBodyOf(request);
    if (this.#mode !== 'service') return this.#decideLocally(body, options.fallback);
    try {
      return decisionOf(await this.#sendCheck(JSON.stringify(body), options.deadlineMs ?? this.#deadlineMs));
    } catch (error) {
      if (error instanceof UnavailableError) return this.#decideLocally(body, options.fallback);
      throw error;
    }
  }

  /** Decides a request by the fallback, without asking the service. */
  checkLocally(request: CheckRequest, fallback?: Fallback): Decision {
    return this.#decideLocally(checkBodyOf(request), fallback);
  }

  /**
   * Gives back what a check charged, never above full: for work that was then not done. Returns the state of
   * each limit afterwards.
   *
   * ```ts
   * await client.refund({ descriptor: { user: 'ann' }, limits: '10/minute', cost: 5 }); // as in the check
   * ```
   *
   * The result is empty if no limit applies, if the service cannot be reached (then the cost goes back to the
   * counters of this process), and if the response is late or lost (then the service may have given the cost
   * back). An empty result is final: do not retry.
   *
   * @throws {RefusedError} if the service rejects the request as invalid.
   */
  refund(request: CheckRequest, options: CheckOptions = {}): Promise<readonly LimitState[]> {
    return refund(this.#internals(options), request);
  }

  /** Gives back to the counters of this process only. */
  refundLocally(request: CheckRequest, fallback?: Fallback): void {
    this.#internals(fallback === undefined ? {} : { fallback }).giveBackLocally(checkBodyOf(request));
  }

  /**
   * Charges an estimate of what work will cost. Settle the reservation with the real cost when the work is done.
   *
   * ```ts
   * const reservation = await client.reserve({ descriptor: { user: 'ann' }, limits: '1000/minute', cost: 400 });
   * if (reservation.allowed) await reservation.settle(await generate());
   * ```
   *
   * {@link withReservation} also settles when the work throws.
   *
   * @throws {RefusedError} if the service rejects the request as invalid.
   */
  reserve(request: ReserveRequest, options: CheckOptions = {}): Promise<Reservation> {
    return reserve(this.#internals(options), request);
  }

  /** Reserves in the counters of this process, without asking the service. */
  reserveLocally(request: ReserveRequest, fallback?: Fallback): Reservation {
    return reserveInProcess(this.#internals(fallback === undefined ? {} : { fallback }), checkBodyOf(request));
  }

  /**
   * Takes a slot of a concurrency limit. Release it when the work is done.
   *
   * ```ts
   * const permit = await client.acquire({ domain: 'shop', descriptor: { export: 'ann' } });
   * if (permit.allowed) await exportAll().finally(() => permit.release());
   * ```
   *
   * {@link withPermit} also renews the slot while the work goes on.
   *
   * @throws {RefusedError} if the service rejects the request as invalid.
   */
  acquire(request: Omit<CheckRequest, 'cost' | 'limits'>, options: CheckOptions = {}): Promise<Permit> {
    return acquirePermit(this.#internals(options), request);
  }

  /** Closes the connections. Checks that still wait are decided by the fallback, and so are later ones. */
  close(): void {
    this.#closed = true;
    this.#batcher.rejectWaiting(new UnavailableError('closed', 'the client is closed', { sent: false }));
    this.#transport.close();
  }

  async #sendCheck(body: string, deadlineMs: number): Promise<ServiceResponse> {
    if (this.#breaker.closed && !this.#closed) return this.#batcher.check(body, deadlineMs);
    // One request by itself finds out whether the service is back.
    return this.#call('/v1/check', body, deadlineMs, this.#breaker.admit());
  }

  async #call(path: string, body: string, deadlineMs: number, attempt: Attempt | undefined): Promise<ServiceResponse> {
    if (this.#closed) throw new UnavailableError('closed', 'the client is closed', { sent: false });
    if (!attempt) {
      throw new UnavailableError('backoff', 'the service failed a moment ago and is not called until the next retry', { sent: false });
    }
    try {
      const response = await this.#transport.post(path, body, deadlineMs);
      this.#breaker.succeeded(attempt);
      return response;
    } catch (error) {
      this.#breaker.failed(attempt);
      throw error;
    }
  }

  #onOpen(): void {
    const error = new UnavailableError('connection', 'the service cannot be reached', { sent: false });
    this.#batcher.rejectWaiting(error);
    this.logger.warn(
      `tidegate: the service at ${this.url} cannot be reached or is too slow; ` +
        `meanwhile requests are decided by the fallback (${this.#fallback})`,
    );
  }

  #decideLocally(body: CheckBody, fallback: Fallback | undefined): Decision {
    return this.#chargeLocally(body, fallback).decision;
  }

  #chargeLocally(body: CheckBody, fallback: Fallback = this.#fallback): { decision: Decision; taken: LocalVerdict[] } {
    if (this.#mode === 'disabled') return { decision: render.allowed('disabled'), taken: [] };
    if (this.#mode === 'local') {
      // There is no service that would refuse invalid limits.
      for (const { limits } of body.descriptors) if (limits) checkedLimits(limits);
      return this.#count(body);
    }
    if (fallback === 'allow') return { decision: render.allowed(), taken: [] };
    if (fallback === 'deny') return { decision: render.denied(), taken: [] };
    return this.#count(body);
  }

  #count(body: CheckBody): { decision: Decision; taken: LocalVerdict[] } {
    const now = this.#now();
    const taken = this.#limiter.charge(localCharges(body, this.#localLimits), now);
    return { decision: render.local(taken, now), taken };
  }

  #giveBack(body: CheckBody): LimitState[] {
    const charges = localCharges(body, this.#localLimits);
    this.#limiter.giveBack(charges, this.#now());
    return this.#limiter.charge(charges.map((charge) => ({ ...charge, cost: 0 })), this.#now()).map(render.stateOf);
  }

  /** Returns what refunds, reservations and permits need of the client. */
  #internals(options: CheckOptions): ClientInternals {
    const deadlineMs = options.deadlineMs ?? this.#deadlineMs;
    return {
      logger: this.logger,
      usesService: this.#mode === 'service',
      call: async (path, body) => {
        const response = await this.#call(path, JSON.stringify(body), deadlineMs, this.#breaker.admit());
        if (response.status >= 400 && response.status !== 429) throw failureOf(response);
        return response;
      },
      chargeLocally: (body) => this.#chargeLocally(body, options.fallback),
      giveBackLocally: (body) => {
        const counts = this.#mode === 'local' || (this.#mode === 'service' && (options.fallback ?? this.#fallback) === 'local');
        return counts ? this.#giveBack(body) : [];
      },
      adjustLocally: (taken, by) => this.#limiter.adjust(taken, by, this.#now()),
    };
  }
}

/** @internal What refunds, reservations and permits need of a client. */
export interface ClientInternals {
  readonly logger: Logger;
  /** Whether there is a service; if not, everything is decided in this process. */
  readonly usesService: boolean;
  /** Sends JSON and returns the response; a status that is neither 2xx nor 429 is thrown as an error. */
  call(path: string, body: unknown): Promise<ServiceResponse>;
  /** Decides by the fallback; `taken` is what its counters were charged. */
  chargeLocally(body: CheckBody): { decision: Decision; taken: LocalVerdict[] };
  /** Gives back to the counters of this process, and returns the state of each limit afterwards. */
  giveBackLocally(body: CheckBody): LimitState[];
  /** Changes what the counters of this process were charged, by a number of units. */
  adjustLocally(taken: readonly LocalVerdict[], by: number): void;
}

/** Returns milliseconds since the epoch that never go back, even if the clock of the machine is set back. */
function wallClock(): number {
  return performance.timeOrigin + performance.now();
}
