import { describe, expect, it } from "vitest";

import type { Override, QuotaItem } from "../api/types.ts";
import { overrideDescriptor, overrideText, withOverride } from "./override.ts";

const NOW = Date.parse("2026-11-18T12:00:00Z");

function tenant(...overrides: Partial<Override>[]): QuotaItem {
  const whole = (given: Partial<Override>): Override => ({
    descriptor: "default",
    effective_at: null,
    expires_at: null,
    in_effect: true,
    ...given,
  });
  return { tenant: "acme", tier: null, overrides: overrides.map(whole), updated_at: "", revision: 1 };
}

describe("the descriptor of an override", () => {
  it("leaves the tenant out", () => {
    const entries = [
      { key: "api_key", value: "acme" },
      { key: "endpoint", value: "POST /orders" },
    ];
    expect(overrideDescriptor(entries, "api_key")).toBe("endpoint:POST /orders");
    expect(overrideDescriptor(entries.slice(0, 1), "api_key")).toBe("default");
  });

  it("escapes what has a meaning", () => {
    const entries = [
      { key: "a:b|c", value: "x:y|z\\" },
      { key: "d", value: "e" },
    ];
    expect(overrideDescriptor(entries, "api_key")).toBe("a\\:b\\|c:x:y\\|z\\\\|d:e");
  });
});

describe("a new override", () => {
  it("takes the place of those that it overlaps", () => {
    const before = tenant({ limit: "steady", requests_per_unit: 5, unit: "minute" });
    const after = withOverride(before, { descriptor: "default", limit: "steady", unlimited: true }, NOW);
    expect(after).toEqual([{ descriptor: "default", limit: "steady", unlimited: true }]);
  });

  it("leaves other limits, ended ones and later ones", () => {
    const before = tenant(
      { limit: "daily" },
      { limit: "steady", expires_at: "2026-11-17T00:00:00Z" },
      { limit: "steady", effective_at: "2026-12-01T00:00:00Z" },
      { limit: "steady", descriptor: "endpoint:x" },
    );
    const added = {
      descriptor: "default",
      limit: "steady",
      unlimited: true,
      expires_at: "2026-11-19T00:00:00Z",
    };
    const after = withOverride(before, added, NOW);
    expect(after).toHaveLength(5);
    expect(after.every((override) => !("in_effect" in override))).toBe(true);
  });

  it("is the first of a tenant that is not known yet", () => {
    expect(withOverride(null, { unlimited: true }, NOW)).toEqual([{ unlimited: true }]);
  });

  it("is written in words", () => {
    expect(overrideText({ requests_per_unit: 500, unit: "minute", burst: 20 })).toBe(
      "500 per minute, burst 20",
    );
    expect(overrideText({ requests_per_unit: 0, unit: "minute" })).toBe("blocked");
    expect(overrideText({ unlimited: true })).toBe("unlimited");
    expect(overrideText({ requests_per_unit: 5, duration: "8760h" })).toBe("5 per 365 days");
    expect(overrideText({ requests_per_unit: 5, duration: "36h" })).toBe("5 per 36h");
  });
});
