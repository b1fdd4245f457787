import type { Algorithm } from '../limits.js';
import { Bucket } from './bucket.js';
import type { Counter, Numbers } from './counter.js';
import { FixedWindow } from './fixed-window.js';
import { SlidingLog } from './sliding-log.js';
import { SlidingWindow } from './sliding-window.js';
import { SubWindows } from './sub-windows.js';

export type { Counter, Numbers, Taken, Verdict } from './counter.js';

const FACTORIES: Readonly<Record<Algorithm, (limit: Numbers) => Counter>> = {
  fixed_window: () => new FixedWindow(),
  sliding_window: () => new SlidingWindow(),
  sub_windows: (limit) => new SubWindows(limit),
  sliding_log: () => new SlidingLog(),
  token_bucket: () => new Bucket(),
  gcra: () => new Bucket(),
  leaky_bucket: () => new Bucket(),
};

/** Returns an empty counter. */
export function counterOf(algorithm: Algorithm, limit: Numbers): Counter {
  return FACTORIES[algorithm](limit);
}
