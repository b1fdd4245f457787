import { describe, expect, it } from "vitest";

import type { History, Tick } from "../api/types.ts";
import { ofHistory, ofTicks, rowsOf, summaryOf } from "./chart-data.ts";

function tick(at_s: number, allowed: number): Tick {
  const degradation = { level: 0, name: "normal", reasons: [] };
  return {
    at_s,
    allowed,
    denied: 0,
    shadow_denied: 0,
    error: 0,
    p50_us: 1,
    p99_us: 2,
    degradation,
    store: [],
    seq: at_s,
  };
}

const history: History = {
  span: "1h",
  step_s: 10,
  from_s: 1000,
  series: [{ name: "allowed", values: [1, 2, 3] }],
  marks: [],
  memory_bytes: 0,
};

describe("the live chart", () => {
  it("goes on from the history, tick by tick", () => {
    const chart = ofTicks("decisions", history, [tick(1025, 7), tick(1026, 8)], 10);
    expect(chart.times).toEqual([1017, 1018, 1019, 1020, 1021, 1022, 1023, 1024, 1025, 1026]);
    expect(chart.series[0]?.values).toEqual([2, 2, 2, 3, 3, 3, 3, 3, 7, 8]);
  });

  it("has a gap where no tick arrived", () => {
    const chart = ofTicks("decisions", undefined, [tick(1, 5), tick(3, 6)], 3);
    expect(chart.series[0]?.values).toEqual([5, null, 6]);
  });

  it("is empty without both", () => {
    expect(ofTicks("latency", undefined, [], 10).times).toEqual([]);
  });
});

describe("a chart as a table and in words", () => {
  it("has at most sixty rows, newest first", () => {
    const { times, series } = ofHistory({
      ...history,
      series: [{ name: "allowed", values: Array(360).fill(2) }],
    });
    const rows = rowsOf(times, series);
    expect(rows).toHaveLength(60);
    expect(rows[0]?.time).toBeGreaterThan(rows[1]?.time ?? 0);
    expect(rows[0]?.values).toEqual([2]);
  });

  it("names the last and the highest value", () => {
    const { times, series } = ofHistory({ ...history, series: [{ name: "denied", values: [1, 9, null] }] });
    expect(summaryOf("Decisions", times, series, String)).toContain("Denied: last 9, highest 9");
    expect(summaryOf("Decisions", [], [], String)).toBe("Decisions: nothing recorded.");
  });
});
