import { describe, expect, it } from "vitest";

import { pieces, plain, shorten } from "./visible.ts";

describe("hostile text", () => {
  it("keeps ordinary text in one piece", () => {
    expect(pieces("api_key=abc/endpoint=POST /orders")).toEqual([
      { text: "api_key=abc/endpoint=POST /orders" },
    ]);
    expect(pieces("ключ שלום 鍵")).toHaveLength(1);
    expect(pieces("<img src=x onerror=alert(1)>")).toHaveLength(1);
  });

  it("shows what turns the direction of text", () => {
    expect(pieces("user\u202eadmin")).toEqual([
      { text: "user" },
      { text: "RLO", mark: "U+202E" },
      { text: "admin" },
    ]);
    for (const mark of "\u200e\u200f\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069\u061c") {
      expect(pieces(`a${mark}b`)[1]?.mark).toMatch(/^U\+/);
    }
  });

  it("shows control characters, odd spaces, lone surrogates and fillers", () => {
    for (const character of [
      "\0",
      "\n",
      "\t",
      "\u001b",
      "\u0085",
      "\u00a0",
      "\u2003",
      "\u3164",
      "\ud800",
      "\u{e0041}",
    ]) {
      expect(pieces(`a${character}b`), JSON.stringify(character)).toHaveLength(3);
    }
  });

  it("keeps emoji whole", () => {
    expect(pieces("👩‍👩‍👧 🏳️‍🌈 👍🏽")).toHaveLength(1);
  });

  it("counts marks that pile up instead of drawing them", () => {
    const shown = pieces(`a${"\u0301".repeat(100)}b`);
    expect(shown[1]).toEqual({ text: "+97", mark: "97 more combining marks" });
  });

  it("makes one line for labels", () => {
    expect(plain("a\r\nb\u202e")).toBe("a[CR][LF]b[RLO]");
  });

  it("cuts the middle of long text, and no character in two", () => {
    const { head, tail, cut } = shorten("😀".repeat(4096), 100);
    expect([...head]).toHaveLength(75);
    expect([...tail]).toHaveLength(25);
    expect(cut).toBe(3996);
    expect(shorten("short", 100)).toEqual({ head: "short", tail: "", cut: 0 });
  });
});
