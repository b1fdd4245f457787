import { Tidegate } from './client.js';
import { tokenOf, urlOf } from './client-options.js';
import type { LimiterOptions } from './limiter-options.js';

const clients = new Map<string, Tidegate>();

/** Returns the client for the options of a limiter. Limiters of the same service share one, and so their batches. */
export function clientFor<C>(options: LimiterOptions<C>): Tidegate {
  const { deadlineMs, logger } = options;
  const url = urlOf(options.url);
  const token = tokenOf(options.token);
  const make = (): Tidegate =>
    new Tidegate({
      url,
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
