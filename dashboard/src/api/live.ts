import type { Change, Denial, Tick } from "./types.ts";

/** Whether ticks arrive. `paused` is what the reader asked for, or a tab that nobody looks at. */
export type LiveState = "connecting" | "live" | "paused" | "disconnected";

export interface LiveEvents {
  state(state: LiveState): void;
  tick(tick: Tick): void;
  change(change: Change): void;
  denial(denial: Denial): void;
}

/** The part of `EventSource` that is used, so that tests can replace it. */
export interface Source {
  addEventListener(kind: string, handler: (event: MessageEvent<string>) => void): void;
  close(): void;
}

/** A connection without a tick for this long is taken as broken. */
export const SILENCE_MS = 5_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;

/** Returns how long to wait before the attempt after `failures` failed ones. Doubles, with a fifth of jitter. */
export function retryDelay(failures: number, random: () => number = Math.random): number {
  const delay = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.max(0, failures - 1));
  return Math.round(delay * (0.9 + 0.2 * random()));
}

/**
 * The stream of what happens on the node. It connects again after every break, and after a silence: a browser's own
 * retry gives up once the server has refused a connection, and does not notice a connection that says nothing.
 */
export class LiveStream {
  private source: Source | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private current: LiveState = "paused";
  private readonly open: () => Source;
  private readonly events: LiveEvents;
  private readonly random: () => number;

  constructor(open: () => Source, events: LiveEvents, random: () => number = Math.random) {
    this.open = open;
    this.events = events;
    this.random = random;
  }

  get state(): LiveState {
    return this.current;
  }

  /** Connects, unless it is connected. */
  start(): void {
    if (this.source || this.current === "connecting") return;
    this.failures = 0;
    this.connect();
  }

  /** Closes the connection until the next `start`. */
  pause(): void {
    this.close();
    this.set("paused");
  }

  private connect(): void {
    this.set(this.failures === 0 ? "connecting" : "disconnected");
    const source = this.open();
    this.source = source;
    const own = (handler: (event: MessageEvent<string>) => void) => (event: MessageEvent<string>) => {
      if (this.source === source) handler(event);
    };
    source.addEventListener(
      "error",
      own(() => this.retry()),
    );
    source.addEventListener(
      "tick",
      own((event) => this.onTick(event)),
    );
    source.addEventListener(
      "change",
      own((event) => this.events.change(JSON.parse(event.data) as Change)),
    );
    source.addEventListener(
      "denial",
      own((event) => this.events.denial(JSON.parse(event.data) as Denial)),
    );
    this.wait(SILENCE_MS, () => this.retry());
  }

  private onTick(event: MessageEvent<string>): void {
    this.failures = 0;
    this.set("live");
    this.wait(SILENCE_MS, () => this.retry());
    this.events.tick(JSON.parse(event.data) as Tick);
  }

  private retry(): void {
    this.close();
    this.failures += 1;
    this.set("disconnected");
    this.wait(retryDelay(this.failures, this.random), () => this.connect());
  }

  private close(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  private wait(ms: number, then: () => void): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(then, ms);
  }

  private set(state: LiveState): void {
    if (state === this.current) return;
    this.current = state;
    this.events.state(state);
  }
}
