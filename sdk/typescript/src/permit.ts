import type { Caller, Tidegate } from './client.js';
import { decisionOf, objectOf, type Decision } from './decision.js';
import { askedOf, type Asked, type CheckRequest } from './descriptor.js';
import { RateLimitExceeded, RefusedError, UnavailableError } from './errors.js';

/** What is asked when acquiring: a slot is one unit, and rules have the limits. */
export type AcquireRequest = Omit<CheckRequest, 'cost' | 'limits'>;

/** A slot of a concurrency limit, or the denial of one. */
export class Permit {
  #token: string | null;
  #expiresAt: Date | null;

  /** @internal */
  constructor(
    private readonly caller: Caller,
    /** Of a denial, or of the fallback; null if the service gave a slot. */
    readonly decision: Decision | null,
    token: string | null,
    expiresAt: Date | null,
  ) {
    this.#token = token;
    this.#expiresAt = expiresAt;
  }

  /** Whether the work may begin. */
  get allowed(): boolean {
    return this.decision?.allowed ?? true;
  }

  /** When the slot is lost unless it is renewed; null if nothing is held. */
  get expiresAt(): Date | null {
    return this.#expiresAt;
  }

  /** Keeps the slot for another time-out. Returns false if it is not held any more. */
  async renew(): Promise<boolean> {
    if (this.#token === null) return this.allowed;
    try {
      const { text } = await this.caller.call('/v1/renew', { permit: this.#token });
      // It may have been released meanwhile.
      if (this.#token !== null) this.#expiresAt = dateOf(objectOf(text)?.['expires_at']);
      return true;
    } catch (error) {
      if (error instanceof RefusedError && error.status === 404) return false;
      throw error;
    }
  }

  /** Gives the slot back; twice is no error. If the service cannot be reached it is free after its time-out. */
  async release(): Promise<void> {
    const token = this.#token;
    this.#token = null;
    this.#expiresAt = null;
    if (token !== null) await this.caller.call('/v1/release', { permit: token });
  }
}

/** @internal */
export async function acquirePermit(caller: Caller, request: AcquireRequest): Promise<Permit> {
  const asked = askedOf(request);
  if (caller.alone) return withoutService(caller, asked);
  try {
    const answer = await caller.call('/v1/acquire', { domain: asked.domain, descriptors: asked.descriptors });
    if (answer.status === 429) return new Permit(caller, decisionOf(answer), null, null);
    const body = objectOf(answer.text);
    if (typeof body?.['permit'] !== 'string') {
      throw new UnavailableError('answer', `status ${answer.status} came without a permit: is the url that of a Tidegate?`);
    }
    return new Permit(caller, null, body['permit'], dateOf(body['expires_at']));
  } catch (error) {
    if (error instanceof UnavailableError) return withoutService(caller, asked);
    throw error;
  }
}

/** How many work at once in other processes is not known here: only `deny` denies. */
function withoutService(caller: Caller, asked: Asked): Permit {
  return new Permit(caller, caller.chargeAlone({ ...asked, descriptors: [] }).decision, null, null);
}

function dateOf(value: unknown): Date | null {
  return typeof value === 'string' ? new Date(value) : null;
}

/**
 * Works while holding a slot, renews it in time, and gives it back however the work ends.
 *
 * ```ts
 * await withPermit(client, { domain: 'shop', descriptor: { export: 'ann' } }, () => exportAll());
 * ```
 *
 * @throws {RateLimitExceeded} if there is no slot.
 */
export async function withPermit<T>(
  client: Tidegate,
  request: AcquireRequest,
  work: (permit: Permit) => Promise<T> | T,
): Promise<T> {
  const permit = await client.acquire(request);
  if (permit.decision && !permit.allowed) throw new RateLimitExceeded(permit.decision);
  const stop = keepRenewed(permit, client);
  try {
    return await work(permit);
  } finally {
    stop();
    await permit.release().catch((error: Error) => client.logger.warn(`tidegate: a permit was not released: ${error.message}`));
  }
}

/** The shortest time between renewals, should clocks disagree. */
const LEAST_MS = 100;
/** The longest that a timer takes. */
const MOST_MS = 2 ** 31 - 1;

/** Renews at a third of the time that is left, so that a renewal may fail once. */
function keepRenewed(permit: Permit, client: Tidegate): () => void {
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const next = (): void => {
    if (stopped || !permit.expiresAt) return;
    const wait = Math.min(Math.max((permit.expiresAt.getTime() - Date.now()) / 3, LEAST_MS), MOST_MS);
    timer = setTimeout(() => void renew(), wait);
    timer.unref();
  };
  const renew = async (): Promise<void> => {
    try {
      if (await permit.renew()) next();
      else client.logger.warn('tidegate: a permit was lost while its work went on: its time-out passed');
    } catch (error) {
      client.logger.warn(`tidegate: a permit was not renewed: ${(error as Error).message}`);
      next();
    }
  };
  next();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
