import type { Caller } from './client.js';
import { objectOf, type LimitState } from './decision.js';
import { askedOf, type CheckRequest } from './descriptor.js';
import { UnavailableError } from './errors.js';

/** @internal A request to this path is never sent twice. */
export const REFUND_PATH = '/v1/refund';

/** @internal Gives back in the service, or while it is away to the counters of this process. */
export async function refund(caller: Caller, request: CheckRequest): Promise<readonly LimitState[]> {
  const asked = askedOf(request);
  if (caller.alone) return caller.giveBackAlone(asked);
  try {
    const { status, text } = await caller.call(REFUND_PATH, asked);
    const limits = objectOf(text)?.['limits'];
    if (status !== 200 || !Array.isArray(limits)) {
      throw new UnavailableError('answer', `status ${status} came without limits: is the url that of a Tidegate?`);
    }
    return limits as LimitState[];
  } catch (error) {
    if (!(error instanceof UnavailableError)) throw error;
    // What was sent may have been done: given back here as well, it would be twice what was taken.
    if (!error.sent) caller.giveBackAlone(asked);
    return [];
  }
}
