const MIN_MS = 50;
const MAX_MS = 5_000;

/**
 * Returns the milliseconds to wait after a number of failures. The wait doubles from 50 ms to 5 s, with full jitter, so
 * that many clients do not return together. `random` is from 0 to below 1.
 */
export function backoffMs(failures: number, random: number): number {
  return random * Math.min(MIN_MS * 2 ** (failures - 1), MAX_MS);
}
