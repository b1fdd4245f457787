import { afterEach } from 'vitest';

/** A list of what tests open; what is in it is closed after each, the last first. */
export function closedAfterEach(): { close(): unknown }[] {
  const open: { close(): unknown }[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.close();
  });
  return open;
}
