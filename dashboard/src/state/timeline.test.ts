import { describe, expect, it } from "vitest";

import type { Override } from "../api/types.ts";
import { phase, timeline } from "./timeline.ts";

const NOW = Date.parse("2026-11-18T12:00:00Z");

function override(effective_at: string | null, expires_at: string | null): Override {
  return { descriptor: "default", effective_at, expires_at, in_effect: false };
}

describe("the time line of overrides", () => {
  it("tells past, current and future apart, with an exclusive end", () => {
    expect(phase(override(null, "2026-11-18T12:00:00Z"), NOW)).toBe("past");
    expect(phase(override(null, "2026-11-18T12:00:01Z"), NOW)).toBe("current");
    expect(phase(override("2026-11-18T12:00:00Z", null), NOW)).toBe("current");
    expect(phase(override("2026-11-18T12:00:01Z", null), NOW)).toBe("future");
  });

  it("contains now and every start and end", () => {
    const line = timeline(
      [override("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"), override("2027-01-01T00:00:00Z", null)],
      NOW,
    );
    expect(line.now).toBeGreaterThan(0);
    expect(line.now).toBeLessThan(1);
    for (const bar of line.bars) {
      expect(bar.left).toBeGreaterThanOrEqual(0);
      expect(bar.left + bar.width).toBeLessThanOrEqual(1.0001);
    }
    expect(line.bars[1]?.openEnd).toBe(true);
    expect((line.bars[0]?.left ?? 1) < line.now && line.now < (line.bars[1]?.left ?? 0)).toBe(true);
  });

  it("is of use without overrides", () => {
    expect(timeline([], NOW).now).toBeCloseTo(0.5);
  });
});
