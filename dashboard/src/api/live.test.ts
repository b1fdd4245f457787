import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { type LiveState, LiveStream, retryDelay, SILENCE_MS, type Source } from "./live.ts";

class FakeSource implements Source {
  handlers = new Map<string, (event: MessageEvent<string>) => void>();
  closed = false;

  addEventListener(kind: string, handler: (event: MessageEvent<string>) => void): void {
    this.handlers.set(kind, handler);
  }

  close(): void {
    this.closed = true;
  }

  emit(kind: string, data: unknown = {}): void {
    this.handlers.get(kind)?.({ data: JSON.stringify(data) } as MessageEvent<string>);
  }
}

function started() {
  const sources: FakeSource[] = [];
  const states: LiveState[] = [];
  const ticks: unknown[] = [];
  const open = () => {
    const source = new FakeSource();
    sources.push(source);
    return source;
  };
  const events = {
    state: (state: LiveState) => states.push(state),
    tick: (tick: unknown) => ticks.push(tick),
    change: () => undefined,
    denial: () => undefined,
  };
  const stream = new LiveStream(open, events, () => 0.5);
  stream.start();
  const newest = () => sources[sources.length - 1] as FakeSource;
  return { stream, sources, states, ticks, newest };
}

describe("the live stream", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("is live from the first tick, not from the connection", () => {
    const { states, newest } = started();
    expect(states).toEqual(["connecting"]);
    newest().emit("tick", { seq: 1 });
    expect(states).toEqual(["connecting", "live"]);
  });

  it("connects again after a break, later each time", () => {
    const { sources, states, newest } = started();
    newest().emit("tick");
    newest().emit("error");
    expect(states.at(-1)).toBe("disconnected");
    vi.advanceTimersByTime(499);
    expect(sources).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(sources).toHaveLength(2);
    newest().emit("error");
    vi.advanceTimersByTime(999);
    expect(sources).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(sources).toHaveLength(3);
    newest().emit("tick");
    expect(states.at(-1)).toBe("live");
  });

  it("takes silence as a break", () => {
    const { sources, states, newest } = started();
    newest().emit("tick");
    vi.advanceTimersByTime(SILENCE_MS);
    expect(states.at(-1)).toBe("disconnected");
    expect(sources[0]?.closed).toBe(true);
  });

  it("does not connect while it is paused", () => {
    const { stream, sources, states, newest } = started();
    newest().emit("error");
    stream.pause();
    vi.advanceTimersByTime(60_000);
    expect(sources).toHaveLength(1);
    expect(states.at(-1)).toBe("paused");
    stream.start();
    expect(sources).toHaveLength(2);
  });

  it("ignores what a closed connection still says", () => {
    const { stream, ticks, newest } = started();
    const old = newest();
    stream.pause();
    old.emit("tick");
    expect(ticks).toHaveLength(0);
  });

  it("never waits longer than its bound", () => {
    expect(retryDelay(50, () => 1)).toBeLessThanOrEqual(16_500);
    expect(retryDelay(1, () => 0)).toBe(450);
  });
});
