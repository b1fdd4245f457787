import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

import type { Mark } from "../api/types.ts";
import { useColours } from "../state/theme.ts";
import { clock, dateTime } from "../text/format.ts";
import { Button } from "./basics.tsx";
import { rowsOf, type Series, summaryOf } from "./chart-data.ts";
import { isSerious, marksPlugin } from "./chart-marks.ts";
import { KeyText } from "./KeyText.tsx";

interface ChartProps {
  title: string;
  /** Unix seconds, one per value. */
  times: number[];
  series: Series[];
  marks?: Mark[];
  /** Whether the marks are explained below the chart; once per page is enough. */
  explainMarks?: boolean;
  format: (value: number | null) => string;
  /** Said where there is nothing to draw. */
  empty?: string;
}

const HEIGHT = 190;

/** A chart of lines with a legend, a table of the same numbers, and a summary for those who see neither. */
export function Chart(props: ChartProps) {
  const [asTable, setAsTable] = useState(false);
  const [cursor, setCursor] = useState<number | null>(null);
  const summary = summaryOf(props.title, props.times, props.series, props.format);
  const hasValues = props.series.some((series) => series.values.some((value) => value !== null));
  return (
    <figure class="chart" aria-label={summary}>
      <figcaption class="chart-head">
        <h2>{props.title}</h2>
        <Legend {...props} cursor={cursor} />
        <Button
          small
          kind="quiet"
          icon={asTable ? "chart" : "table"}
          pressed={asTable}
          onClick={() => setAsTable(!asTable)}
          label={`${props.title} as a table`}
        >
          {asTable ? "Chart" : "Table"}
        </Button>
      </figcaption>
      {asTable ? (
        <ChartTable {...props} />
      ) : hasValues ? (
        <Canvas {...props} onCursor={setCursor} />
      ) : (
        <p class="chart-empty muted">{props.empty ?? "Nothing was recorded in this time."}</p>
      )}
      {props.explainMarks && <MarkList times={props.times} marks={props.marks ?? []} />}
    </figure>
  );
}

function Legend(props: ChartProps & { cursor: number | null }) {
  const at = props.cursor ?? props.times.length - 1;
  const time = props.times[at];
  return (
    <ul class="legend" aria-hidden="true">
      {props.series.map((series) => (
        <li key={series.name}>
          <span class={`swatch ink-${series.tone} swatch-${strokeOf(series)}`} />
          {series.label} <b>{props.format(series.values[at] ?? null)}</b>
        </li>
      ))}
      <li class="muted">{time === undefined ? "" : props.cursor === null ? "now" : clock(time * 1000)}</li>
    </ul>
  );
}

const MARKS_LISTED = 4;

/** What the flags on the chart stand for, newest first. */
function MarkList({ times, marks }: { times: number[]; marks: Mark[] }) {
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 0];
  const shown = marks.filter((mark) => mark.at_s >= first && mark.at_s <= last).slice(-MARKS_LISTED);
  if (shown.length === 0) return null;
  return (
    <ul class="marks" aria-label="Changes in this time">
      {shown.reverse().map((mark) => (
        <li key={`${mark.at_s} ${mark.text}`}>
          <span class={isSerious(mark) ? "ink-error" : "ink-accent"} aria-hidden="true">
            ▶
          </span>{" "}
          <span class="muted">{clock(mark.at_s * 1000)}</span> <KeyText text={mark.text} most={80} />
        </li>
      ))}
    </ul>
  );
}

/** The line of a series in the legend, as it is drawn. */
function strokeOf({ dash }: Series): string {
  if (!dash) return "solid";
  return (dash[0] ?? 0) > 3 ? "dashed" : "dotted";
}

function ChartTable(props: ChartProps) {
  const rows = rowsOf(props.times, props.series);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section class="chart-table" tabIndex={0} aria-label={`${props.title}, newest first`}>
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {props.series.map((series) => (
              <th key={series.name} scope="col" class="number">
                {series.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.time}>
              <td>{dateTime(row.time * 1000)}</td>
              {row.values.map((value, index) => (
                <td key={index} class="number">
                  {props.format(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Canvas(props: ChartProps & { onCursor: (index: number | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marks = useRef<Mark[]>([]);
  marks.current = props.marks ?? [];
  const colours = useColours();
  const data = [props.times, ...props.series.map((series) => series.values)] as uPlot.AlignedData;
  const shape = props.series.map((series) => series.name).join();

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      options(element, props, () => marks.current),
      data,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, colours]);

  useEffect(() => plot.current?.setData(data), [props.times, props.series, props.marks]);

  return <div class="chart-canvas" ref={box} aria-hidden="true" />;
}

/** `14:05`, and at midnight the day; seconds only where a label falls on some. */
function timeLabel(time: number): string {
  const date = new Date(time * 1000);
  if (date.getHours() === 0 && date.getMinutes() === 0) return `${date.getDate()}.${date.getMonth() + 1}.`;
  const text = clock(time * 1000);
  return date.getSeconds() === 0 ? text.slice(0, 5) : text;
}

function options(
  element: HTMLElement,
  props: ChartProps & { onCursor: (index: number | null) => void },
  marks: () => Mark[],
): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("muted"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colour("line"), width: 1 };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { setScale: false, x: false, y: false } },
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 64, size: 26, values: (_, times) => times.map(timeLabel) },
      {
        ...axis,
        grid,
        size: 56,
        space: 36,
        values: (_, values) => values.map((value) => props.format(value)),
      },
    ],
    series: [
      {},
      ...props.series.map(
        (series): uPlot.Series => ({
          label: series.label,
          stroke: colour(series.tone),
          width: 1.75,
          dash: series.dash,
          fill: series.fill ? `${colour(series.tone)}22` : undefined,
          points: { show: false },
          spanGaps: false,
        }),
      ),
    ],
    hooks: { setCursor: [(plot) => props.onCursor(plot.cursor.idx ?? null)] },
    plugins: [marksPlugin(marks, colour)],
  };
}
