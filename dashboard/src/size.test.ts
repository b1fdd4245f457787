import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

const DIST = new URL("../dist/", import.meta.url);
const MOST_BYTES = 150_000;

it("needs at most 150 kB of scripts and styles, compressed, and nothing inline", () => {
  const files = readdirSync(new URL("assets/", DIST)).filter((name) => /\.(js|css)$/.test(name));
  const sizes = files.map((name) => gzipSync(readFileSync(new URL(`assets/${name}`, DIST))).length);
  expect(files.length).toBeGreaterThan(1);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MOST_BYTES);
  const page = readFileSync(new URL("index.html", DIST), "utf8");
  expect(page).not.toMatch(/<style|style=|<script(?![^>]*src=)|\son\w+=/);
});
