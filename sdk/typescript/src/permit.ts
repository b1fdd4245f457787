import type { ClientInternals, Tidegate } from './client.js';
import { decisionOf, objectOf, type Decision } from './decision.js';
import { checkBodyOf, type CheckBody, type CheckRequest } from './descriptor.js';
import { RateLimitExceeded, RefusedError, UnavailableError } from './errors.js';

/** A request for a slot of a concurrency limit. It has no cost and no limits, which are in the rules of the service. */
export type AcquireRequest = Omit<CheckRequest, 'cost' | 'limits'>;

/**
 * A slot of a concurrency limit, or the denial of one, from {@link Tidegate.acquire}.
 *
 * ```ts
 * const permit = await client.acquire({ domain: 'shop', descriptor: { export: 'ann' } });
 * if (permit.allowed) await exportAll().finally(() => permit.release());
 * ```
 */
export class Permit {
  #token: string | null;
  #expiresAt: Date | null;

  /** @internal */
  constructor(
    private readonly client: ClientInternals,
    /** The decision of a denial, or of the fallback; null if the service granted a slot. */
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

  /** When the slot is lost unless it is renewed; null if no slot is held. */
  get expiresAt(): Date | null {
    return this.#expiresAt;
  }

  /** Holds the slot for another timeout of the rule. Returns false if it is no longer held. */
  async renew(): Promise<boolean> {
    if (this.#token === null) return this.allowed;
    try {
      const { text } = await this.client.call('/v1/renew', { permit: this.#token });
      // It may have been released meanwhile.
      if (this.#token !== null) this.#expiresAt = dateOf(objectOf(text)?.['expires_at']);
      return true;
    } catch (error) {
      if (error instanceof RefusedError && error.status === 404) return false;
      throw error;
    }
  }

  /** Returns the slot; a second call does nothing. If the service cannot be reached, the slot is free after its timeout. */
  async release(): Promise<void> {
    const token = this.#token;
    this.#token = null;
    this.#expiresAt = null;
    if (token !== null) await this.client.call('/v1/release', { permit: token });
  }
}

/** @internal Takes a slot from the service; the fallback decides if it cannot be reached. */
export async function acquirePermit(client: ClientInternals, request: AcquireRequest): Promise<Permit> {
  const body = checkBodyOf(request);
  if (!client.usesService) return permitInProcess(client, body);
  try {
    const response = await client.call('/v1/acquire', { domain: body.domain, descriptors: body.descriptors });
    if (response.status === 429) return new Permit(client, decisionOf(response), null, null);
    const grant = objectOf(response.text);
    if (typeof grant?.['permit'] !== 'string') {
      throw new UnavailableError('response', `the response (status ${response.status}) has no permit: is the url that of a Tidegate service?`);
    }
    return new Permit(client, null, grant['permit'], dateOf(grant['expires_at']));
  } catch (error) {
    if (error instanceof UnavailableError) return permitInProcess(client, body);
    throw error;
  }
}

/** Returns a permit that holds no slot. The slots of other processes are not known here, so only `deny` denies. */
function permitInProcess(client: ClientInternals, body: CheckBody): Permit {
  return new Permit(client, client.chargeLocally({ ...body, descriptors: [] }).decision, null, null);
}

function dateOf(value: unknown): Date | null {
  return typeof value === 'string' ? new Date(value) : null;
}

/**
 * Runs the work while holding a slot, and returns its result. The slot is renewed in time, and released however the
 * work ends.
 *
 * ```ts
 * await withPermit(client, { domain: 'shop', descriptor: { export: 'ann' } }, () => exportAll());
 * ```
 *
 * @throws {RateLimitExceeded} if all slots are taken.
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

/** The shortest time between renewals, in case clocks disagree. */
const MIN_MS = 100;
/** The longest delay of a timer of Node; a longer one fires at once. */
const MAX_MS = 2 ** 31 - 1;

/** Renews after a third of the time that is left, so that a renewal may fail. Returns a function that stops it. */
function keepRenewed(permit: Permit, client: Tidegate): () => void {
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const next = (): void => {
    if (stopped || !permit.expiresAt) return;
    const wait = Math.min(Math.max((permit.expiresAt.getTime() - Date.now()) / 3, MIN_MS), MAX_MS);
    timer = setTimeout(() => void renew(), wait);
    timer.unref();
  };
  const renew = async (): Promise<void> => {
    try {
      if (await permit.renew()) next();
      else client.logger.warn('tidegate: a permit was lost while its work went on: its timeout has passed');
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
