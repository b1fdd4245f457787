/** How long anything may take before a test gives up: far more than it ever does. */
export const PATIENCE_MS = 30_000;

/** Waits until `attempt` returns something, and returns it. */
export async function until<T>(
  what: string,
  attempt: () => Promise<T | null | undefined | false> | T | null | undefined | false,
): Promise<T> {
  const end = Date.now() + PATIENCE_MS;
  let last: unknown;
  while (Date.now() < end) {
    try {
      const found = await attempt();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`waited in vain for ${what}${last ? `: ${last}` : ""}`);
}
