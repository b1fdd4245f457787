const MINUTE_MS = 60_000;
const MINUTES = 60;

/** Counts denials by minute, for the last hour. Those that are older are left out. */
export function minutesOf(denials: { at: string }[], now: number): { at: number; count: number }[] {
  const last = Math.floor(now / MINUTE_MS);
  const minutes = Array.from({ length: MINUTES }, (_, index) => ({
    at: (last - MINUTES + 1 + index) * MINUTE_MS,
    count: 0,
  }));
  for (const denial of denials) {
    const minute = minutes[Math.floor(Date.parse(denial.at) / MINUTE_MS) - (last - MINUTES + 1)];
    if (minute) minute.count += 1;
  }
  return minutes;
}
