import { address } from "../api/client.ts";
import { type LiveState, LiveStream, type Source } from "../api/live.ts";
import type { Change, Degradation, Denial, Shard, Tick } from "../api/types.ts";
import { createStore, useStore } from "./store.ts";

/** Seconds of ticks that are kept. */
export const TICKS_KEPT = 300;
const DENIALS_KEPT = 50;
/** A tab that nobody looks at closes its connection after this long: the node serves a bounded number. */
const HIDDEN_MS = 60_000;

interface LiveView {
  state: LiveState;
  /** Whether the reader has paused it. */
  pausedByReader: boolean;
  ticks: Tick[];
  denials: Denial[];
  lastChange: Change | null;
  /** Counts changes, so that lists can be read again. */
  changes: number;
  degradation: Degradation | null;
  store: Shard[];
  /** When a degradation ended, for the notice about it. */
  recoveredAt: number | null;
}

const initial: LiveView = {
  state: "paused",
  pausedByReader: false,
  ticks: [],
  denials: [],
  lastChange: null,
  changes: 0,
  degradation: null,
  store: [],
  recoveredAt: null,
};

export const live = createStore<LiveView>(initial);

const stream = new LiveStream(() => new EventSource(address("live")) as unknown as Source, {
  state: (state) => live.set((view) => ({ ...view, state })),
  tick: (tick) => live.set((view) => withTick(view, tick)),
  change: (change) => live.set((view) => ({ ...view, lastChange: change, changes: view.changes + 1 })),
  denial: (denial) =>
    live.set((view) => ({ ...view, denials: [denial, ...view.denials].slice(0, DENIALS_KEPT) })),
});

function withTick(view: LiveView, tick: Tick): LiveView {
  const ended = (view.degradation?.level ?? 0) > 0 && tick.degradation.level === 0;
  const began = tick.degradation.level > 0;
  return {
    ...view,
    ticks: [...view.ticks, tick].slice(-TICKS_KEPT),
    degradation: tick.degradation,
    store: tick.store,
    recoveredAt: began ? null : ended ? Date.now() : view.recoveredAt,
  };
}

let hiddenTimer: ReturnType<typeof setTimeout> | undefined;

/** Follows the node until `stopLive`. */
export function startLive(): void {
  if (!live.get().pausedByReader) stream.start();
  document.addEventListener("visibilitychange", onVisibility);
}

export function stopLive(): void {
  document.removeEventListener("visibilitychange", onVisibility);
  clearTimeout(hiddenTimer);
  stream.pause();
  live.set(initial);
}

export function togglePause(): void {
  const pausedByReader = !live.get().pausedByReader;
  live.set((view) => ({ ...view, pausedByReader }));
  if (pausedByReader) stream.pause();
  else stream.start();
}

export function forgetRecovery(): void {
  live.set((view) => ({ ...view, recoveredAt: null }));
}

function onVisibility(): void {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(() => stream.pause(), HIDDEN_MS);
  else if (!live.get().pausedByReader) stream.start();
}

export function useLive<S>(select: (view: LiveView) => S): S {
  return useStore(live, select);
}
