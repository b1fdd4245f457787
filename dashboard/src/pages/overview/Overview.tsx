import { useHistory, useOverview } from "../../api/reads.ts";
import type { Metric, Span } from "../../api/types.ts";
import { TICKS_KEPT, useLive } from "../../state/live.ts";
import { filter, useRoute } from "../../state/place.ts";
import { micros, perSecond, seconds } from "../../text/format.ts";
import { Choice, PageHead } from "../../ui/basics.tsx";
import { Chart } from "../../ui/Chart.tsx";
import { ofHistory, ofTicks } from "../../ui/chart-data.ts";
import { ProblemBox, Shown } from "../../ui/states.tsx";
import { Changes } from "./Changes.tsx";
import { Figures } from "./Figures.tsx";
import { Health } from "./Health.tsx";
import { RecentDenials } from "./RecentDenials.tsx";

type ChartSpan = "live" | Span;

const SPANS = [
  ["live", "5 min, live"],
  ["1h", "1 hour"],
  ["1d", "1 day"],
] as const;

/** Is it healthy, and what is going on. */
export function Overview() {
  const { query } = useRoute();
  const span: ChartSpan = query.span === "1h" || query.span === "1d" ? query.span : "live";
  const overview = useOverview();
  const node = overview.data;
  const note = node && `${node.node} · ${node.version} · up ${seconds(node.uptime_s)}`;
  return (
    <>
      <PageHead title="Overview" note={note}>
        <Choice label="Time" value={span} options={SPANS} onChoose={(value) => filter({ span: value })} />
      </PageHead>
      <Figures overview={node} />
      <div class="charts">
        <MetricChart metric="decisions" span={span} />
        <MetricChart metric="latency" span={span} />
      </div>
      <div class="grid-two">
        <RecentDenials />
        <Changes />
      </div>
      <Shown resource={overview}>{(data) => <Health overview={data} />}</Shown>
    </>
  );
}

function MetricChart({ metric, span }: { metric: Metric; span: ChartSpan }) {
  const history = useHistory(metric, span === "live" ? "1h" : span);
  const ticks = useLive((view) => view.ticks);
  const title = metric === "decisions" ? "Decisions per second" : "Latency of decisions";
  const format = metric === "decisions" ? perSecond : micros;
  if (!history.data && history.problem)
    return <ProblemBox problem={history.problem} onRetry={history.reload} />;
  const chart =
    span === "live"
      ? ofTicks(metric, history.data, ticks, TICKS_KEPT)
      : history.data
        ? ofHistory(history.data)
        : { times: [], series: [] };
  return (
    <div class="panel">
      <Chart
        title={title}
        {...chart}
        marks={history.data?.marks}
        explainMarks={metric === "decisions"}
        format={format}
        empty={history.data ? "No decisions in this time." : "Loading"}
      />
    </div>
  );
}
