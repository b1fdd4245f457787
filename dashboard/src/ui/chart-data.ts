import type { History, Tick } from "../api/types.ts";
import { clock } from "../text/format.ts";

export interface Series {
  name: string;
  label: string;
  /** Which colour it has; a custom property of the style sheet. */
  tone: string;
  values: (number | null)[];
  /** Dashes tell lines apart without colours. */
  dash?: number[];
  fill?: boolean;
}

export interface ChartData {
  times: number[];
  series: Series[];
}

const LOOKS: Record<string, Omit<Series, "name" | "values">> = {
  allowed: { label: "Allowed", tone: "allowed", fill: true },
  denied: { label: "Denied", tone: "denied", fill: true },
  shadow_denied: { label: "Shadow denied", tone: "shadow", dash: [6, 3] },
  error: { label: "Errors", tone: "error", dash: [2, 3] },
  p50: { label: "p50", tone: "accent", fill: true },
  p90: { label: "p90", tone: "shadow", dash: [6, 3] },
  p99: { label: "p99", tone: "denied", dash: [2, 3] },
};

/** Returns a history as a chart. */
export function ofHistory(history: History): ChartData {
  const length = Math.max(0, ...history.series.map((series) => series.values.length));
  const times = Array.from({ length }, (_, index) => history.from_s + index * history.step_s);
  return { times, series: history.series.map(({ name, values }) => series(name, values)) };
}

/** The names of what a tick has, for decisions and for latency. */
export const LIVE_SERIES = {
  decisions: ["allowed", "denied", "shadow_denied", "error"],
  latency: ["p50", "p99"],
} as const;

/**
 * Returns the last seconds as a chart: those of the history while the page was not open yet, then one value per tick. A
 * second without a tick is a gap.
 */
export function ofTicks(
  metric: keyof typeof LIVE_SERIES,
  history: History | undefined,
  ticks: Tick[],
  span_s: number,
): ChartData {
  const names = LIVE_SERIES[metric];
  const last =
    ticks.at(-1)?.at_s ?? (history ? history.from_s + historyLength(history) * history.step_s - 1 : 0);
  if (last === 0) return { times: [], series: names.map((name) => series(name, [])) };
  const first = last - span_s + 1;
  const times = Array.from({ length: span_s }, (_, index) => first + index);
  const columns: (number | null)[][] = names.map(() => new Array<number | null>(span_s).fill(null));
  const firstTick = ticks[0]?.at_s ?? last + 1;
  if (history) {
    names.forEach((name, column) => {
      const values = history.series.find((item) => item.name === name)?.values ?? [];
      times.forEach((time, index) => {
        const at = Math.floor((time - history.from_s) / history.step_s);
        if (time < firstTick) (columns[column] as (number | null)[])[index] = values[at] ?? null;
      });
    });
  }
  for (const tick of ticks) {
    const index = tick.at_s - first;
    if (index < 0 || index >= span_s) continue;
    names.forEach((name, column) => {
      (columns[column] as (number | null)[])[index] = tickValue(tick, name);
    });
  }
  return { times, series: names.map((name, column) => series(name, columns[column] as (number | null)[])) };
}

function tickValue(tick: Tick, name: string): number | null {
  if (name === "p50") return tick.p50_us;
  if (name === "p99") return tick.p99_us;
  return tick[name as "allowed" | "denied" | "shadow_denied" | "error"];
}

function historyLength(history: History): number {
  return history.series[0]?.values.length ?? 0;
}

function series(name: string, values: (number | null)[]): Series {
  const look = LOOKS[name] ?? { label: name, tone: "accent" };
  return { name, values, ...look };
}

const MOST_ROWS = 60;

/** Returns at most sixty rows for a table, newest first. Several times are one row with the mean of their values. */
export function rowsOf(times: number[], all: Series[]): { time: number; values: (number | null)[] }[] {
  const size = Math.max(1, Math.ceil(times.length / MOST_ROWS));
  const rows = [];
  for (let end = times.length; end > 0; end -= size) {
    const start = Math.max(0, end - size);
    rows.push({
      time: times[start] as number,
      values: all.map((item) => mean(item.values.slice(start, end))),
    });
  }
  return rows;
}

function mean(values: (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null && value !== undefined);
  if (known.length === 0) return null;
  return known.reduce((sum, value) => sum + value, 0) / known.length;
}

/** Returns a chart in words: from when to when, and for each line its last and its highest value. */
export function summaryOf(
  title: string,
  times: number[],
  all: Series[],
  format: (value: number | null) => string,
): string {
  const [first, last] = [times[0], times.at(-1)];
  const parts = all.map((item) => {
    const known = item.values.filter((value): value is number => value !== null);
    if (known.length === 0) return `${item.label}: nothing recorded`;
    return `${item.label}: last ${format(known.at(-1) ?? null)}, highest ${format(Math.max(...known))}`;
  });
  if (first === undefined || last === undefined) return `${title}: nothing recorded.`;
  return `${title} from ${clock(first * 1000)} to ${clock(last * 1000)}. ${parts.join("; ")}.`;
}
