import type { ExplainedLimit, Explanation, Why } from "../../api/types.ts";
import { formatRoute } from "../../state/route.ts";
import { dateTime, exact, micros, millis } from "../../text/format.ts";
import { Badge, Meter } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { sentence } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/Table.tsx";

/** How a request would be decided now, and why; for a denial also what it was. */
export function ExplanationView({ why, brief }: { why: Why; brief?: boolean }) {
  const { explanation, denial } = why;
  return (
    <div class="explanation">
      {denial && (
        <p class="notice">
          Denied on {dateTime(denial.at)} by <b>{denial.rule}</b> ({denial.limit_text}); source{" "}
          {denial.source}, cost {denial.cost}, retry after {millis(denial.retry_after_ms)}.
        </p>
      )}
      {!brief && <Outcome explanation={explanation} past={denial !== null} />}
      {explanation.descriptors.map((descriptor, index) => (
        <section key={index} class="explained">
          {!brief && (
            <>
              <ol class="entries">
                {descriptor.entries.map((entry, at) => (
                  <li key={at}>
                    <code>
                      <KeyText text={`${entry.key}=${entry.value}`} expand />
                    </code>
                    <span class="muted">{entry.matched}</span>
                  </li>
                ))}
              </ol>
              <p>
                {sentence(descriptor.why)}.{" "}
                {descriptor.tenant !== null && (
                  <>
                    Tenant{" "}
                    <a href={formatRoute("tenants", [descriptor.tenant])}>
                      <KeyText text={descriptor.tenant} most={48} />
                    </a>
                    {descriptor.tier ? `, tier ${descriptor.tier}.` : ", no tier."}
                  </>
                )}
              </p>
            </>
          )}
          {descriptor.limits.length > 0 ? (
            <LimitTable limits={descriptor.limits} domain={explanation.domain} />
          ) : (
            brief && <p class="muted">No limit applies.</p>
          )}
          {descriptor.replaced.map((text) => (
            <p key={text} class="muted small">
              Replaced: {text}
            </p>
          ))}
        </section>
      ))}
      {!brief && (
        <p class="muted small">
          Counters from {why.store}; node {why.node}; rules version {why.rules_version}.
        </p>
      )}
    </div>
  );
}

function Outcome({ explanation, past }: { explanation: Explanation; past: boolean }) {
  const now = past ? "Sent again now, it" : "It";
  if (!explanation.domain_found) {
    return (
      <p class="outcome">
        There are no rules for the domain {explanation.domain}, so nothing limits the request.
      </p>
    );
  }
  return (
    <p class="outcome">
      <Badge tone={explanation.allowed ? "allowed" : "denied"}>
        {explanation.allowed ? "allowed" : "denied"}
      </Badge>{" "}
      {now} would be {explanation.allowed ? "allowed" : "denied"}
      {explanation.decided_by ? (
        <>
          , decided by <b>{explanation.decided_by}</b>.
        </>
      ) : (
        ": no limit applies."
      )}
    </p>
  );
}

function LimitTable({ limits, domain }: { limits: ExplainedLimit[]; domain: string }) {
  const columns: Column<ExplainedLimit>[] = [
    {
      title: "Limit",
      kind: "main",
      cell: (limit) => (
        <>
          <a href={formatRoute("rules", [domain, limit.rule])}>
            <KeyText text={limit.rule} most={40} />
          </a>{" "}
          <span class="muted">{limit.name}</span>
          <div class="muted small">{limit.limit}</div>
        </>
      ),
    },
    { title: "From", cell: (limit) => limit.from },
    { title: "Left before", kind: "number", cell: (limit) => exact(limit.remaining_before) },
    {
      title: "Left after",
      kind: "number",
      cell: (limit) => (
        <>
          {exact(limit.remaining_after)}
          <LimitMeter limit={limit} />
        </>
      ),
    },
    { title: "Decision", cell: (limit) => <LimitOutcome limit={limit} /> },
  ];
  return (
    <Table
      columns={columns}
      rows={limits}
      keyOf={(limit) => `${limit.rule}\0${limit.name}`}
      rowClass={(limit) => (limit.decides ? "row-decides" : undefined)}
    />
  );
}

function LimitMeter({ limit }: { limit: ExplainedLimit }) {
  const found = /burst (\d+)/.exec(limit.limit) ?? /(\d+) per/.exec(limit.limit);
  const most = found ? Number(found[1]) : 0;
  if (!(most > 0)) return null;
  return (
    <Meter used={most - limit.remaining_before} of={most} label={`Used of ${limit.rule} ${limit.name}`} />
  );
}

function LimitOutcome({ limit }: { limit: ExplainedLimit }) {
  const shadow = limit.not_enforced !== null;
  if (limit.allowed) return <Badge tone="allowed">allows</Badge>;
  return (
    <>
      <Badge tone={shadow ? "shadow" : "denied"}>{shadow ? "would deny" : "denies"}</Badge>{" "}
      <span class="muted small">
        {limit.not_enforced ??
          (limit.retry_after_us === null ? "always" : `for ${micros(limit.retry_after_us)}`)}
      </span>
    </>
  );
}
