import { describe, expect, it } from "vitest";

import { ago, bytes, count, micros, percent, seconds } from "./format.ts";

describe("numbers", () => {
  it("are exact while they are small, and short when they are large", () => {
    expect(count(0)).toBe("0");
    expect(count(9_999)).toBe("9,999");
    expect(count(12_345)).toBe("12.3k");
    expect(count(1_234_567)).toBe("1.2M");
    expect(count(0.125)).toBe("0.13");
    expect(count(1211.3)).toBe("1,211");
    expect(count(null)).toBe("–");
  });

  it("have units that fit", () => {
    expect(micros(210)).toBe("210 µs");
    expect(micros(1_234)).toBe("1.23 ms");
    expect(micros(2_500_000)).toBe("2.5 s");
    expect(micros(3_725_000_000)).toBe("1 h 2 m");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(percent(1, 10_000)).toBe("<0.1 %");
    expect(percent(1, 0)).toBe("–");
  });
});

describe("durations", () => {
  it("have the two largest units", () => {
    expect(seconds(0)).toBe("0 s");
    expect(seconds(59)).toBe("59 s");
    expect(seconds(3_725)).toBe("1 h 2 m");
    expect(seconds(3_600)).toBe("1 h");
    expect(seconds(90_061)).toBe("1 d 1 h");
  });

  it("are counted from now", () => {
    const now = Date.parse("2026-11-18T12:00:00Z");
    expect(ago("2026-11-18T11:59:00Z", now)).toBe("1 m ago");
    expect(ago("2026-11-18T12:00:30Z", now)).toBe("in 30 s");
    expect(ago("2026-11-18T11:29:34Z", now)).toBe("30 m ago");
    expect(ago("2026-11-18T10:29:34Z", now)).toBe("1 h 30 m ago");
    expect(ago(null, now)).toBe("–");
    expect(ago("soon", now)).toBe("soon");
  });
});
