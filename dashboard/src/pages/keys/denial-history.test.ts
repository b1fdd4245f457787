import { expect, it } from "vitest";

import { minutesOf } from "./denial-history.ts";

it("counts the denials of each minute of the last hour", () => {
  const now = Date.parse("2026-11-18T12:30:30Z");
  const at = (text: string) => ({ at: `2026-11-18T${text}Z` });
  const minutes = minutesOf(
    [at("12:30:01"), at("12:30:29"), at("12:00:00"), at("11:30:59"), at("10:00:00")],
    now,
  );
  expect(minutes).toHaveLength(60);
  expect(minutes.at(-1)?.count).toBe(2);
  expect(minutes.reduce((sum, minute) => sum + minute.count, 0)).toBe(3);
});
