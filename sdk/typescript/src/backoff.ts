const FIRST_MS = 50;
const MOST_MS = 5_000;

/**
 * How long to leave a service alone after so many failures: doubling from 50 ms to 5 s, and drawn evenly
 * from nothing to that, so that many do not return together. `random` is from 0 to below 1.
 */
export function backoffMs(failures: number, random: number): number {
  return random * Math.min(FIRST_MS * 2 ** (failures - 1), MOST_MS);
}
