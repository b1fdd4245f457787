import type { Override } from "../api/types.ts";

export type Phase = "past" | "current" | "future";

/** One override on the time line. `left` and `width` are shares of the whole, from 0 to 1. */
export interface Bar {
  override: Override;
  phase: Phase;
  left: number;
  width: number;
  /** Whether the time goes on beyond the line, to the left or to the right. */
  openStart: boolean;
  openEnd: boolean;
}

export interface Timeline {
  from: number;
  to: number;
  /** Where now is, from 0 to 1. */
  now: number;
  bars: Bar[];
}

const DAY_MS = 86_400_000;

/** Returns which time an override has, at `now`. Its end is exclusive. */
export function phase(override: Override, now: number): Phase {
  if (override.expires_at !== null && Date.parse(override.expires_at) <= now) return "past";
  if (override.effective_at !== null && Date.parse(override.effective_at) > now) return "future";
  return "current";
}

/** Lays overrides out on one line that contains every start and end, and now, with a margin of a twentieth. */
export function timeline(overrides: Override[], now: number): Timeline {
  const times = overrides.flatMap((override) =>
    [override.effective_at, override.expires_at]
      .filter((time): time is string => time !== null)
      .map(Date.parse),
  );
  const first = Math.min(now - DAY_MS, ...times);
  const last = Math.max(now + DAY_MS, ...times);
  const margin = (last - first) / 20;
  const [from, to] = [first - margin, last + margin];
  const share = (time: number) => Math.min(1, Math.max(0, (time - from) / (to - from)));
  const bars = overrides.map((override) => {
    const start = override.effective_at === null ? from : Date.parse(override.effective_at);
    const end = override.expires_at === null ? to : Date.parse(override.expires_at);
    const left = share(start);
    return {
      override,
      phase: phase(override, now),
      left,
      width: Math.max(0.005, share(end) - left),
      openStart: override.effective_at === null,
      openEnd: override.expires_at === null,
    };
  });
  return { from, to, now: share(now), bars };
}
