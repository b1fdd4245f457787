import { TidegateError } from './errors.js';

/** As many descriptors as the service takes in a request, unless it is told otherwise. */
const MOST_ROUTES = 100;

/** The routes that a limiter has charged, for calls by key that do not say which. */
export class ChargedRoutes {
  readonly #routes = new Set<string>();

  add(route: string): void {
    // One more than are used tells that some are missing.
    if (this.#routes.size <= MOST_ROUTES) this.#routes.add(route);
  }

  /**
   * All there are.
   *
   * @throws {TidegateError} if that is none yet, or too many to know.
   */
  all(): readonly string[] {
    const say = 'set the option route to a text, or say which route it is';
    if (this.#routes.size === 0) throw new TidegateError(`a key has a counter for each route, and no request has come yet: ${say}`);
    if (this.#routes.size > MOST_ROUTES) {
      throw new TidegateError(`a key has a counter for each route, and there are more than ${MOST_ROUTES}: ${say}`);
    }
    return [...this.#routes];
  }
}
