import { describe, expect, it } from "vitest";

import { draftFrom, numbersOf, type OverrideForm } from "./override-form.ts";

const form: OverrideForm = {
  domain: "api",
  descriptor: "endpoint:POST /orders",
  limit: "steady",
  kind: "limited",
  requests: "500",
  unit: "minute",
  burst: "20",
  end: "1h",
};
const NOW = Date.parse("2026-11-18T12:00:00Z");

describe("the form of an override", () => {
  it("becomes what the quota API takes", () => {
    expect(draftFrom(form, NOW)).toEqual({
      domain: "api",
      descriptor: "endpoint:POST /orders",
      limit: "steady",
      requests_per_unit: 500,
      unit: "minute",
      burst: 20,
      expires_at: "2026-11-18T13:00:00.000Z",
    });
  });

  it("knows other durations, unlimited and blocked", () => {
    expect(draftFrom({ ...form, unit: "90s", end: "never" }, NOW)).toMatchObject({ duration: "90s" });
    expect(draftFrom({ ...form, end: "never" }, NOW)).not.toHaveProperty("expires_at");
    expect(draftFrom({ ...form, kind: "unlimited" }, NOW)).toMatchObject({ unlimited: true });
    expect(draftFrom({ ...form, kind: "unlimited" }, NOW)).not.toHaveProperty("requests_per_unit");
    expect(draftFrom({ ...form, kind: "blocked", burst: "5" }, NOW)).toMatchObject({
      requests_per_unit: 0,
      unit: "minute",
    });
  });

  it("is nothing while a number is missing or is none", () => {
    for (const requests of ["", "many", "1.5", "-1"])
      expect(draftFrom({ ...form, requests }, NOW), requests).toBeNull();
    expect(draftFrom({ ...form, unit: " " }, NOW)).toBeNull();
  });
});

it("reads the numbers of a limit from its text", () => {
  expect(numbersOf("token_bucket, 100 per minute, burst 20")).toEqual({
    requests: 100,
    unit: "minute",
    burst: 20,
  });
  expect(numbersOf("sliding_window, 5 per 90s")).toEqual({ requests: 5, unit: "90s", burst: undefined });
  expect(numbersOf("unlimited")).toEqual({});
});
