import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    // Far more than any test takes: a test that hangs is reported by name.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The smallest machine has two cores.
    maxWorkers: 2,
  },
});
