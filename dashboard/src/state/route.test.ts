import { describe, expect, it } from "vitest";

import { formatRoute, parseRoute } from "./route.ts";

describe("the place in the URL", () => {
  it("survives names of any kind", () => {
    for (const name of ["per user", "a/b?c#d&e=f%", "<script>", "\u202eגמר", "😀", "..", "+"]) {
      const hash = formatRoute("rules", ["api", name], { q: name, tab: "edit" });
      expect(parseRoute(hash)).toEqual({
        page: "rules",
        path: ["api", name],
        query: { q: name, tab: "edit" },
      });
      expect(hash).toMatch(/^#[\x21-\x7e]+$/);
    }
  });

  it("is the overview if the page is unknown or missing", () => {
    for (const hash of ["", "#", "#/", "#/nothing", "#overview"])
      expect(parseRoute(hash).page).toBe("overview");
  });

  it("leaves out what is empty", () => {
    expect(formatRoute("keys", [], { by: "denied", domain: "", rule: undefined })).toBe("#/keys?by=denied");
  });

  it("does not fail on broken escapes", () => {
    expect(parseRoute("#/rules/%E0%A4%A")).toMatchObject({ page: "rules", path: ["%E0%A4%A"] });
  });
});
