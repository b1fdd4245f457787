import { useState } from "preact/hooks";

import { get, post } from "../../api/client.ts";
import { type ApiProblem, problemOf } from "../../api/problem.ts";
import type { Events as EventsBody, WarningEvent } from "../../api/types.ts";
import { useResource } from "../../state/resource.ts";
import { formatRoute } from "../../state/route.ts";
import { count, exact } from "../../text/format.ts";
import { Badge, Button, PageHead, Panel, Time, type Tone } from "../../ui/basics.tsx";
import { CounterKey, KeyText } from "../../ui/KeyText.tsx";
import { Empty, ProblemBox, Shown } from "../../ui/states.tsx";
import { type Column, Dash, Table } from "../../ui/Table.tsx";
import { toast } from "../../ui/Toasts.tsx";

const DELIVERIES: Record<WarningEvent["delivery"], Tone> = {
  sent: "allowed",
  queued: "accent",
  failed: "denied",
  dropped: "error",
  off: "off",
};

/** Warnings before limits stop somebody, and whether the webhook got them. */
export function Events() {
  const load = (signal: AbortSignal) => get<EventsBody>("events", { limit: 100 }, signal);
  const events = useResource("events", load, { everyMs: 5_000 });
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const webhook = events.data?.webhook ?? null;
  const test = async () => {
    try {
      setProblem(null);
      const { id } = await post<{ id: string }>("events/test");
      toast(`The test event ${id} is queued`);
      events.reload();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <>
      <PageHead title="Events" note="Warnings when a key has used a share of its limit: warn_at in a rule.">
        <Button
          needs="operator"
          disabled={webhook === null}
          title={webhook === null ? "No webhook is set" : undefined}
          onClick={() => void test()}
        >
          Send a test event
        </Button>
      </PageHead>
      {problem && <ProblemBox problem={problem} />}
      <Shown resource={events} rows={8}>
        {(data) => (
          <>
            <Webhook webhook={data.webhook} />
            {data.events.length === 0 ? (
              <Empty icon="events" title="No warning yet">
                Set <code>warn_at: [80, 90, 100]</code> in a rule to be told before a limit stops somebody.
              </Empty>
            ) : (
              <Panel title="Warnings">
                <Table columns={COLUMNS} rows={data.events} keyOf={(event) => event.id} />
              </Panel>
            )}
          </>
        )}
      </Shown>
    </>
  );
}

function Webhook({ webhook }: { webhook: EventsBody["webhook"] }) {
  if (!webhook) {
    return (
      <p class="notice">
        No webhook is set: warnings are in the log, in the metrics and on this page. Set{" "}
        <code>warnings.webhook</code> to send them on.
      </p>
    );
  }
  const figures = [
    ["Queued", webhook.queued, ""],
    ["Sent", webhook.sent, ""],
    ["Failed", webhook.failed, "denied"],
    ["Dropped", webhook.dropped, "error"],
  ] as const;
  return (
    <dl class="figures">
      <div class="figure">
        <dt>Webhook</dt>
        <dd class="figure-text">
          <bdi>{webhook.url_host}</bdi>
        </dd>
      </div>
      {figures.map(([name, value, tone]) => (
        <div key={name} class="figure">
          <dt>{name}</dt>
          <dd class={value > 0 && tone ? `ink-${tone}` : ""}>{count(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

const COLUMNS: Column<WarningEvent>[] = [
  {
    title: "Key",
    kind: "main",
    cell: (event) =>
      event.fingerprint ? (
        <a href={formatRoute("keys", [], { open: event.fingerprint })}>
          <CounterKey value={event.key} fingerprint={event.fingerprint} most={60} />
        </a>
      ) : (
        <Dash />
      ),
  },
  {
    title: "Used",
    kind: "number",
    hint: (event) => `${exact(event.used)} of ${exact(event.of)}`,
    cell: (event) =>
      event.kind === "test" ? (
        <Badge tone="accent">test</Badge>
      ) : (
        <b class={event.percent >= 100 ? "ink-denied" : "ink-error"}>{event.percent} %</b>
      ),
  },
  {
    title: "Rule and limit",
    kind: "wide",
    cell: (event) =>
      event.rule ? (
        <>
          <a href={formatRoute("rules", [event.domain, event.rule])}>
            <KeyText text={event.rule} most={40} />
          </a>{" "}
          <span class="muted">{event.limit}</span>
        </>
      ) : (
        <Dash />
      ),
  },
  { title: "When", cell: (event) => <Time at={event.at} /> },
  { title: "Window ends", cell: (event) => <Time at={event.window_ends} /> },
  { title: "Node", cell: (event) => <bdi>{event.node}</bdi> },
  {
    title: "Webhook",
    cell: (event) => <Badge tone={DELIVERIES[event.delivery] ?? "plain"}>{event.delivery}</Badge>,
  },
];
