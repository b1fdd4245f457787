import { defineConfig } from "vitest/config";

/** The service that `npm run dev` shows. */
const service = process.env.TIDEGATE_ADMIN ?? "http://127.0.0.1:6070";

// Paths are relative, so that the page also works behind a proxy that adds a prefix.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    cssCodeSplit: false,
  },
  server: { proxy: { "/admin": service, "/docs": service, "/openapi.json": service, "/usage": service } },
  test: { include: ["src/**/*.test.ts"] },
});
