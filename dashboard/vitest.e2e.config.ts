import { defineConfig } from "vitest/config";

// One file after the other: each starts processes of its own, and a browser.
export default defineConfig({
  test: {
    include: ["e2e/**/*.e2e.ts"],
    fileParallelism: false,
    // What fails first is the cause; the rest of a story has no sense without it.
    bail: 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ["verbose"],
  },
});
