import { backoffMs } from './backoff.js';
import type { Caller, Tidegate } from './client.js';
import { decisionOf, objectOf, type Decision, type LimitState, type WithId } from './decision.js';
import { askedOf, costOf, type Asked, type CheckRequest } from './descriptor.js';
import { RateLimitExceeded, TidegateError, UnavailableError } from './errors.js';
import type { LocalVerdict } from './fallback.js';

/** What is asked when reserving; `cost` is the estimate. */
export interface ReserveRequest extends CheckRequest {
  /** How long it may be settled, 60 s unless told; after that the estimate stays charged. At most a day. */
  readonly ttlMs?: number;
}

/** What became of a reservation. */
export interface Settlement {
  readonly estimate: number;
  /** What was charged in the end. */
  readonly cost: number;
  /** The limits as they stand after it. */
  readonly limits: readonly LimitState[];
}

const DEFAULT_TTL_MS = 60_000;

/** A settlement that is tried again in the background. */
interface Retrying {
  readonly cost: number;
  failures: number;
  timer?: NodeJS.Timeout;
  /** The try that is under way, or was the last; undefined if it did not settle. */
  outcome?: Promise<Settlement | undefined>;
}

/** An estimate that was taken, to be settled once. */
export class Reservation {
  #state: 'open' | 'tried' | 'settled' = 'open';
  #retrying: Retrying | undefined;

  /** @internal */
  constructor(
    private readonly caller: Caller,
    /** The decision about the estimate. */
    readonly decision: Decision,
    /** Units taken until it is settled. */
    readonly estimate: number,
    /** Of the service; null if it is denied, or was decided without the service. */
    readonly id: string | null,
    /** Until when it can be settled. */
    readonly expiresAt: Date | null,
    private readonly taken: readonly LocalVerdict[],
    /** Until when it is worth trying, by the clock of this process. */
    private readonly untilMs = 0,
  ) {}

  /** Whether the work may begin. */
  get allowed(): boolean {
    return this.decision.allowed;
  }

  /** Whether it was settled, or tried to. */
  get settled(): boolean {
    return this.#state !== 'open';
  }

  /**
   * Charges what the work did cost: less than the estimate gives the rest back, more takes the overrun.
   *
   * @throws {RefusedError} with status 410 if it comes too late: the estimate stays charged.
   * @throws {UnavailableError} if the service cannot be reached: then it is tried again in the
   * background until the reservation expires, and whoever calls this again tries at once.
   */
  async settle(spent: number): Promise<Settlement> {
    const cost = costOf(spent);
    if (!this.allowed) throw new TidegateError('a reservation that was denied has nothing to settle');
    if (this.#retrying) {
      const done = await this.#takeOver(this.#retrying, cost);
      if (done) return done;
    }
    if (this.#state === 'settled') throw new TidegateError('a reservation is settled once, and this one was');
    this.#state = 'settled';
    if (this.id === null) {
      this.caller.adjustAlone(this.taken, cost - this.estimate);
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

  /** Ends the tries in the background, and returns what they settled, if it is the same. */
  async #takeOver(retrying: Retrying, cost: number): Promise<Settlement | undefined> {
    this.#retrying = undefined;
    clearTimeout(retrying.timer);
    const settlement = await retrying.outcome;
    return retrying.cost === cost ? settlement : undefined;
  }

  #retryLater(retrying: Retrying, id: string): void {
    const waitMs = backoffMs(retrying.failures, Math.random());
    if (Date.now() + waitMs >= this.untilMs) {
      this.caller.logger.warn('tidegate: a reservation expired before it could be settled, and stays charged as estimated');
      return;
    }
    this.#retrying = retrying;
    retrying.timer = setTimeout(() => (retrying.outcome = this.#retry(retrying, id)), waitMs);
    // An app that is done does not wait for it.
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
        // A try may have arrived whose answer did not, or it was too late.
        this.caller.logger.warn(`tidegate: a reservation was settled before, or stays charged as estimated: ${(error as Error).message}`);
        return undefined;
      }
      retrying.failures += 1;
      if (this.#retrying === retrying && error.reason !== 'closed') this.#retryLater(retrying, id);
      return undefined;
    }
  }

  async #send(id: string, cost: number): Promise<Settlement> {
    const { status, text } = await this.caller.call('/v1/settle', { id, cost });
    const settlement = objectOf(text) as Partial<Settlement> | undefined;
    if (status !== 200 || typeof settlement?.cost !== 'number') {
      throw new UnavailableError('answer', `status ${status} came without a settlement: is the url that of a Tidegate?`);
    }
    return settlement as Settlement;
  }
}

/** @internal */
export async function reserve(caller: Caller, request: ReserveRequest): Promise<Reservation> {
  const asked = askedOf(request);
  if (caller.alone) return reserveAlone(caller, asked);
  const ttlMs = request.ttlMs ?? DEFAULT_TTL_MS;
  const untilMs = Date.now() + ttlMs;
  try {
    const answer = await caller.call('/v1/reserve', { ...asked, ttl_ms: ttlMs });
    const decision = decisionOf(answer);
    const { id, expires_at: expiresAt } = decision.body.json as WithId;
    if (decision.allowed && typeof id !== 'string') {
      throw new UnavailableError('answer', 'a reservation came without an id: is the service too old?');
    }
    const until = typeof expiresAt === 'string' ? new Date(expiresAt) : null;
    return new Reservation(caller, decision, asked.cost, decision.allowed ? (id as string) : null, until, [], untilMs);
  } catch (error) {
    if (error instanceof UnavailableError) return reserveAlone(caller, asked);
    throw error;
  }
}

/** @internal A reservation in this process only. */
export function reserveAlone(caller: Caller, asked: Asked): Reservation {
  const { decision, taken } = caller.chargeAlone(asked);
  return new Reservation(caller, decision, asked.cost, null, null, taken);
}

/**
 * Reserves, works, and settles. The work calls `reservation.settle` with what it cost. If it throws
 * before that, nothing is charged; if it forgets to, the estimate stays charged.
 *
 * ```ts
 * const text = await withReservation(client, { descriptor: { user }, limits: '1000/minute', cost: 400 }, async (r) => {
 *   const { text, tokens } = await generate();
 *   await r.settle(tokens);
 *   return text;
 * });
 * ```
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
      // What went wrong with the work is what the caller has to hear of.
      await reservation.settle(0).catch((late: Error) => client.logger.warn(`tidegate: ${late.message}`));
    }
    throw error;
  }
}
