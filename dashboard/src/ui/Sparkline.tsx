import type { Spark } from "../api/types.ts";
import { count } from "../text/format.ts";

const WIDTH = 96;
const HEIGHT = 22;

/** What a rule did over the last hour: allowed as a line, denied as bars, shadow as thin bars. */
export function Sparkline({ spark }: { spark: Spark }) {
  const length = spark.allowed.length;
  const denied = spark.denied.map((value, index) => value + (spark.shadow_denied[index] ?? 0));
  const highest = Math.max(1, ...spark.allowed, ...denied);
  const x = (index: number) => (index / Math.max(1, length - 1)) * WIDTH;
  const y = (value: number) => HEIGHT - 1 - (value / highest) * (HEIGHT - 2);
  const line = spark.allowed.map(
    (value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`,
  );
  const bars = (values: number[]) =>
    values
      .map((value, index) => (value > 0 ? `M${x(index).toFixed(1)} ${HEIGHT}V${y(value).toFixed(1)}` : ""))
      .join("");
  const most = Math.max(0, ...spark.denied);
  return (
    <svg
      class="sparkline"
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`At most ${count(Math.max(0, ...spark.allowed))} allowed and ${count(most)} denied in ${spark.step_s} s`}
    >
      <path class="spark-shadow" d={bars(denied)} />
      <path class="spark-denied" d={bars(spark.denied)} />
      <path class="spark-allowed" d={line.join("")} />
    </svg>
  );
}
