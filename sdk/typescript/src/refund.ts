import type { ClientInternals } from './client.js';
import { objectOf, type LimitState } from './decision.js';
import { checkBodyOf, type CheckRequest } from './descriptor.js';
import { UnavailableError } from './errors.js';

/** @internal The path of refunds. A request to it is never sent twice. */
export const REFUND_PATH = '/v1/refund';

/** @internal Gives back in the service, or in this process if the service cannot be reached. */
export async function refund(client: ClientInternals, request: CheckRequest): Promise<readonly LimitState[]> {
  const body = checkBodyOf(request);
  if (!client.usesService) return client.giveBackLocally(body);
  try {
    const { status, text } = await client.call(REFUND_PATH, body);
    const limits = objectOf(text)?.['limits'];
    if (status !== 200 || !Array.isArray(limits)) {
      throw new UnavailableError('response', `the response (status ${status}) has no limits: is the url that of a Tidegate service?`);
    }
    return limits as LimitState[];
  } catch (error) {
    if (!(error instanceof UnavailableError)) throw error;
    // A refund that was sent may have been executed. Given back here as well, it would be twice what was charged.
    if (!error.sent) client.giveBackLocally(body);
    return [];
  }
}
