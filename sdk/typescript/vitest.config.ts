import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    // Far more than anything takes: a test that hangs is to say which one it is.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two cores are what the smallest machine has.
    maxWorkers: 2,
  },
});
