import { Batcher } from './batch.js';
import { Breaker, type Attempt } from './breaker.js';
import { fallbackOf, positive, tokenOf, urlOf, type CheckOptions, type ClientOptions, type LocalOptions } from './client-options.js';
import { decisionOf, failureOf, type Answer, type Decision, type LimitState } from './decision.js';
import { askedOf, type Asked, type CheckRequest } from './descriptor.js';
import { UnavailableError } from './errors.js';
import { LocalLimiter, localCharges, type Fallback, type LocalVerdict } from './fallback.js';
import { checkedLimits } from './limit-numbers.js';
import { limitsOf, type Limit } from './limits.js';
import { acquirePermit, type Permit } from './permit.js';
import { refund } from './refund.js';
import * as render from './render.js';
import { reserve, reserveAlone, type ReserveRequest, type Reservation } from './reservation.js';
import { Transport } from './transport.js';
import { noteCreated, type Logger } from './warnings.js';

const DEFAULT_DEADLINE_MS = 250;
const DEFAULT_IN_FLIGHT = 2;

/**
 * Asks the service for decisions. Make one when the app starts, and share it.
 *
 * ```ts
 * const client = new Tidegate({ url: 'http://localhost:8080' });
 * const decision = await client.check({ descriptor: { user: 'ann' }, limits: '10/minute' });
 * if (!decision.allowed) console.log(`retry in ${decision.retryAfter} s`);
 * ```
 */
export class Tidegate {
  /** Where the service is. */
  readonly url: string;
  /** Where warnings go. */
  readonly logger: Logger;
  readonly #deadlineMs: number;
  readonly #fallback: Fallback;
  readonly #localLimits: readonly Limit[] | undefined;
  readonly #transport: Transport;
  readonly #batcher: Batcher;
  readonly #breaker: Breaker;
  readonly #limiter = new LocalLimiter();
  /** Who decides: the service, this process, or nobody. */
  readonly #mode: 'service' | 'local' | 'disabled';
  readonly #now: () => number;
  #closed = false;

  /** @param inProcess Set by {@link Tidegate.local} alone. */
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
      onClose: () => this.logger.warn(`tidegate: the service at ${this.url} answers again`),
    });
    this.#batcher = new Batcher({
      send: (body, timeoutMs) => this.#call('/v1/check', body, timeoutMs, this.#breaker.admit()),
      maxInFlight: positive('maxInFlight', options.maxInFlight ?? DEFAULT_IN_FLIGHT),
    });
    if (this.#mode === 'service') noteCreated(this, this.logger);
  }

  /**
   * Returns a client that counts in this process and asks no service: for tests, and for apps of one process.
   * Limits in code count as they do in the service; rules of a service apply to nothing here.
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

  /** Whether it decides at all; false lets everything pass. */
  get enabled(): boolean {
    return this.#mode !== 'disabled';
  }

  /** Whether it counts in this process alone, as {@link Tidegate.local} does. */
  get isLocal(): boolean {
    return this.#mode === 'local';
  }

  /**
   * Forgets all that this process has counted: between tests, so that each begins with full limits. What a
   * service counts stays as it is.
   */
  reset(): void {
    this.#limiter.clear();
  }

  /**
   * Decides a request. Checks made at the same time go in one batch.
   *
   * @throws {RefusedError} if the service refuses the request as a mistake. That it cannot be reached is
   * no error: the fallback decides then, and `source` says so.
   */
  async check(request: CheckRequest, options: CheckOptions = {}): Promise<Decision> {
    const asked = askedOf(request);
    if (this.#mode !== 'service') return this.#decideAlone(asked, options.fallback);
    try {
      return decisionOf(await this.#ask(JSON.stringify(asked), options.deadlineMs ?? this.#deadlineMs));
    } catch (error) {
      if (error instanceof UnavailableError) return this.#decideAlone(asked, options.fallback);
      throw error;
    }
  }

  /** Decides a request without the service, as the fallback does. */
  checkLocally(request: CheckRequest, fallback?: Fallback): Decision {
    return this.#decideAlone(askedOf(request), fallback);
  }

  /**
   * Gives back what a check took, never above full: for work that was charged and then not done. Say the
   * same as in the check, the cost too. Returns how each limit stands then.
   *
   * While the service is away, the counters of this process get it, and the answer is empty. So it is if the
   * answer is late, fails or is lost: then nobody gets it back but, perhaps, the service. An empty answer is
   * no reason to call it again, as it also means that there is no limit.
   *
   * @throws {RefusedError} if the service refuses the request as a mistake.
   */
  refund(request: CheckRequest, options: CheckOptions = {}): Promise<readonly LimitState[]> {
    return refund(this.#caller(options), request);
  }

  /** Gives back in this process only, to what the fallback counts. */
  refundLocally(request: CheckRequest, fallback?: Fallback): void {
    this.#caller(fallback === undefined ? {} : { fallback }).giveBackAlone(askedOf(request));
  }

  /**
   * Takes an estimate of what work will cost; `settle` of the reservation then charges what it did cost.
   *
   * ```ts
   * const reservation = await client.reserve({ descriptor: { user: 'ann' }, limits: '1000/minute', cost: 400 });
   * if (reservation.allowed) await reservation.settle(await generate());
   * ```
   */
  reserve(request: ReserveRequest, options: CheckOptions = {}): Promise<Reservation> {
    return reserve(this.#caller(options), request);
  }

  /** Reserves in this process only, as the fallback does. */
  reserveLocally(request: ReserveRequest, fallback?: Fallback): Reservation {
    return reserveAlone(this.#caller(fallback === undefined ? {} : { fallback }), askedOf(request));
  }

  /** Takes a slot of a concurrency limit; release it when the work is done. See {@link withPermit}. */
  acquire(request: Omit<CheckRequest, 'cost' | 'limits'>, options: CheckOptions = {}): Promise<Permit> {
    return acquirePermit(this.#caller(options), request);
  }

  /** Closes the connections. Whatever still waits is decided by the fallback. */
  close(): void {
    this.#closed = true;
    this.#batcher.rejectWaiting(new UnavailableError('closed', 'the client is closed', { sent: false }));
    this.#transport.close();
  }

  async #ask(body: string, deadlineMs: number): Promise<Answer> {
    if (this.#breaker.closed && !this.#closed) return this.#batcher.ask(body, deadlineMs);
    // One request alone finds out whether the service is back.
    return this.#call('/v1/check', body, deadlineMs, this.#breaker.admit());
  }

  async #call(path: string, body: string, deadlineMs: number, attempt: Attempt | undefined): Promise<Answer> {
    if (this.#closed) throw new UnavailableError('closed', 'the client is closed', { sent: false });
    if (!attempt) {
      throw new UnavailableError('backoff', 'the service failed a moment ago, and is left alone for now', { sent: false });
    }
    try {
      const answer = await this.#transport.post(path, body, deadlineMs);
      this.#breaker.succeeded(attempt);
      return answer;
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

  #decideAlone(asked: Asked, fallback: Fallback | undefined): Decision {
    return this.#chargeAlone(asked, fallback).decision;
  }

  #chargeAlone(asked: Asked, fallback: Fallback = this.#fallback): { decision: Decision; taken: LocalVerdict[] } {
    if (this.#mode === 'disabled') return { decision: render.allowed('disabled'), taken: [] };
    if (this.#mode === 'local') {
      // Nobody else is there to refuse them.
      for (const { limits } of asked.descriptors) if (limits) checkedLimits(limits);
      return this.#count(asked);
    }
    if (fallback === 'allow') return { decision: render.allowed(), taken: [] };
    if (fallback === 'deny') return { decision: render.denied(), taken: [] };
    return this.#count(asked);
  }

  #count(asked: Asked): { decision: Decision; taken: LocalVerdict[] } {
    const now = this.#now();
    const taken = this.#limiter.charge(localCharges(asked, this.#localLimits), now);
    return { decision: render.local(taken, now), taken };
  }

  #giveBack(asked: Asked): LimitState[] {
    const charges = localCharges(asked, this.#localLimits);
    this.#limiter.giveBack(charges, this.#now());
    return this.#limiter.charge(charges.map((charge) => ({ ...charge, cost: 0 })), this.#now()).map(render.stateOf);
  }

  /** What refunds, reservations and permits need of the client. */
  #caller(options: CheckOptions): Caller {
    const deadlineMs = options.deadlineMs ?? this.#deadlineMs;
    return {
      logger: this.logger,
      alone: this.#mode !== 'service',
      call: async (path, body) => {
        const answer = await this.#call(path, JSON.stringify(body), deadlineMs, this.#breaker.admit());
        if (answer.status >= 400 && answer.status !== 429) throw failureOf(answer);
        return answer;
      },
      chargeAlone: (asked) => this.#chargeAlone(asked, options.fallback),
      giveBackAlone: (asked) => {
        const counts = this.#mode === 'local' || (this.#mode === 'service' && (options.fallback ?? this.#fallback) === 'local');
        return counts ? this.#giveBack(asked) : [];
      },
      adjustAlone: (taken, by) => this.#limiter.adjust(taken, by, this.#now()),
    };
  }
}

/** A client as refunds, reservations and permits see it. */
export interface Caller {
  readonly logger: Logger;
  /** Whether no service is asked at all. */
  readonly alone: boolean;
  /** POSTs JSON; a status that is neither 2xx nor 429 is thrown. */
  call(path: string, body: unknown): Promise<Answer>;
  chargeAlone(asked: Asked): { decision: Decision; taken: LocalVerdict[] };
  /** Returns how each limit stands then. */
  giveBackAlone(asked: Asked): LimitState[];
  adjustAlone(taken: readonly LocalVerdict[], by: number): void;
}

/** Milliseconds since the epoch that never go back, unlike those of `Date`, whatever becomes of the machine's clock. */
function wallClock(): number {
  return performance.timeOrigin + performance.now();
}
