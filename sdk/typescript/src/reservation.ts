import { backoffMs } from './backoff.js';
import type { ClientInternals, Tidegate } from './client.js';
import { decisionOf, objectOf, type Decision, type LimitState, type ReservedBody } from './decision.js';
import { checkBodyOf, costOf, type CheckBody, type CheckRequest } from './descriptor.js';
import { RateLimitExceeded, TidegateError, UnavailableError } from './errors.js';
import type { LocalVerdict } from './fallback.js';

/** A request to reserve: a {@link CheckRequest} whose `cost` is the estimate. */
export interface ReserveRequest extends CheckRequest {
  /** Milliseconds until it can no longer be settled and the estimate stays charged; at most a day. Default: 60,000. */
  readonly ttlMs?: number;
}

/** The result of settling a reservation. */
export interface Settlement {
  /** Units that were reserved. */
  readonly estimate: number;
  /** Units that were charged in the end. */
  readonly cost: number;
  /** The state of each limit afterwards; empty if the fallback decided. */
  readonly limits: readonly LimitState[];
}

const DEFAULT_TTL_MS = 60_000;

/** A settlement that is retried in the background. */
interface Retrying {
  readonly cost: number;
  failures: number;
  timer?: NodeJS.Timeout;
  /** The result of the last attempt; it resolves to undefined if the attempt did not settle. */
  outcome?: Promise<Settlement | undefined>;
}

/**
 * An estimate that has been charged, from {@link Tidegate.reserve}. Settle it once, with the real cost.
 *
 * ```ts
 * const reservation = await client.reserve({ descriptor: { user: 'ann' }, limits: '1000/minute', cost: 400 });
 * if (reservation.allowed) await reservation.settle(123);
 * ```
 */
export class Reservation {
  #state: 'open' | 'tried' | 'settled' = 'open';
  #retrying: Retrying | undefined;

  /** @internal */
  constructor(
    private readonly client: ClientInternals,
    /** The decision about the estimate. */
    readonly decision: Decision,
    /** Units that are charged until it is settled. */
    readonly estimate: number,
    /** The ID of the reservation at the service; null if it is denied, or if the fallback decided. */
    readonly id: string | null,
    /** The time after which it can no longer be settled; null if the fallback decided. */
    readonly expiresAt: Date | null,
    private readonly taken: readonly LocalVerdict[],
    /** When to stop retrying, by the clock of this process. */
    private readonly untilMs = 0,
  ) {}

  /** Whether the work may begin. */
  get allowed(): boolean {
    return this.decision.allowed;
  }

  /** Whether `settle` was called, with or without success. */
  get settled(): boolean {
    return this.#state !== 'open';
  }

  /**
   * Charges the real cost of the work: less than the estimate gives the rest back, more charges the overrun.
   *
   * @throws {RefusedError} with status 410 if it is too late; the estimate stays charged.
   * @throws {UnavailableError} if the service cannot be reached. It is retried in the background until the
   * reservation expires; calling `settle` again retries at once.
   */
  async settle(spent: number): Promise<Settlement> {
    const cost = costOf(spent);
    if (!this.allowed) throw new TidegateError('a reservation that was denied cannot be settled');
    if (this.#retrying) {
      const done = await this.#takeOver(this.#retrying, cost);
      if (done) return done;
    }
    if (this.#state === 'settled') throw new TidegateError('the reservation has been settled before');
    this.#state = 'settled';
    if (this.id === null) {
      this.client.adjustLocally(this.taken, cost - this.estimate);
      return { estimate: this.estimate, cost, limits: [] };
    }
    try {
      return await this.#send(this.id, cost);
    } catch (error) {
      if (error instanceof UnavailableError) {
        this.#state = 'tried';
        if (error.reason !== 'closed') this.#retryLater({ cost, failures: 1 }, this.id);
      }
      throw error;
    }
  }

  /** Stops the retries in the background, and returns their settlement if it has the same cost. */
  async #takeOver(retrying: Retrying, cost: number): Promise<Settlement | undefined> {
    this.#retrying = undefined;
    clearTimeout(retrying.timer);
    const settlement = await retrying.outcome;
    return retrying.cost === cost ? settlement : undefined;
  }

  #retryLater(retrying: Retrying, id: string): void {
    const waitMs = backoffMs(retrying.failures, Math.random());
    if (Date.now() + waitMs >= this.untilMs) {
      this.client.logger.warn('tidegate: a reservation expired before it was settled, so its estimate stays charged');
      return;
    }
    this.#retrying = retrying;
    retrying.timer = setTimeout(() => (retrying.outcome = this.#retry(retrying, id)), waitMs);
    // The timer does not keep the process running.
    retrying.timer.unref();
  }

  async #retry(retrying: Retrying, id: string): Promise<Settlement | undefined> {
    try {
      const settlement = await this.#send(id, retrying.cost);
      this.#state = 'settled';
      return settlement;
    } catch (error) {
      if (!(error instanceof UnavailableError)) {
        this.#state = 'settled';
        // An earlier attempt may have arrived without its response, or it is too late.
        this.client.logger.warn(`tidegate: a reservation was settled before, or stays charged as estimated: ${(error as Error).message}`);
        return undefined;
      }
      retrying.failures += 1;
      if (this.#retrying === retrying && error.reason !== 'closed') this.#retryLater(retrying, id);
      return undefined;
    }
  }

  async #send(id: string, cost: number): Promise<Settlement> {
    const { status, text } = await this.client.call('/v1/settle', { id, cost });
    const settlement = objectOf(text) as Partial<Settlement> | undefined;
    if (status !== 200 || typeof settlement?.cost !== 'number') {
      throw new UnavailableError('response', `the response (status ${status}) is not a settlement: is the url that of a Tidegate service?`);
    }
    return settlement as Settlement;
  }
}

/** @internal Reserves in the service, or in this process if it cannot be reached. */
export async function reserve(client: ClientInternals, request: ReserveRequest): Promise<Reservation> {
  const body = checkBodyOf(request);
  if (!client.usesService) return reserveInProcess(client, body);
  const ttlMs = request.ttlMs ?? DEFAULT_TTL_MS;
  const untilMs = Date.now() + ttlMs;
  try {
    const decision = decisionOf(await client.call('/v1/reserve', { ...body, ttl_ms: ttlMs }));
    const { id, expires_at: expiresAt } = decision.body.json as ReservedBody;
    if (decision.allowed && typeof id !== 'string') {
      throw new UnavailableError('response', 'the response to a reservation has no id: is the service too old?');
    }
    const until = typeof expiresAt === 'string' ? new Date(expiresAt) : null;
    return new Reservation(client, decision, body.cost, decision.allowed ? (id as string) : null, until, [], untilMs);
  } catch (error) {
    if (error instanceof UnavailableError) return reserveInProcess(client, body);
    throw error;
  }
}

/** @internal Reserves in the counters of this process. */
export function reserveInProcess(client: ClientInternals, body: CheckBody): Reservation {
  const { decision, taken } = client.chargeLocally(body);
  return new Reservation(client, decision, body.cost, null, null, taken);
}

/**
 * Reserves, runs the work, and returns its result. The work settles the reservation with the real cost.
 *
 * ```ts
 * const text = await withReservation(client, { descriptor: { user }, limits: '1000/minute', cost: 400 }, async (reservation) => {
 *   const { text, tokens } = await generate();
 *   await reservation.settle(tokens);
 *   return text;
 * });
 * ```
 *
 * If the work throws before it has settled, nothing is charged. If it returns without having settled, the estimate
 * stays charged.
 *
 * @throws {RateLimitExceeded} if the estimate is denied.
 */
export async function withReservation<T>(
  client: Tidegate,
  request: ReserveRequest,
  work: (reservation: Reservation) => Promise<T> | T,
): Promise<T> {
  const reservation = await client.reserve(request);
  if (!reservation.allowed) throw new RateLimitExceeded(reservation.decision);
  try {
    return await work(reservation);
  } catch (error) {
    if (!reservation.settled) {
      // The error of the work is the one to throw.
      await reservation.settle(0).catch((late: Error) => client.logger.warn(`tidegate: ${late.message}`));
    }
    throw error;
  }
}
