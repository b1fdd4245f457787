import type { Denial } from "../../api/types.ts";
import { formatRoute } from "../../state/route.ts";
import { clock, dateTime, millis } from "../../text/format.ts";
import { Badge, Button } from "../../ui/basics.tsx";
import { CounterKey, KeyText } from "../../ui/KeyText.tsx";
import { type Column, Table } from "../../ui/Table.tsx";

const TIME: Column<Denial> = {
  title: "Time",
  cell: (denial) => (
    <time dateTime={denial.at} title={dateTime(denial.at)}>
      {clock(denial.at)}
    </time>
  ),
};

const RETRY: Column<Denial> = {
  title: "Retry in",
  kind: "number",
  cell: (denial) => millis(denial.retry_after_ms),
};

function limitOf(denial: Denial) {
  return (
    <>
      {denial.shadow && <Badge tone="shadow">shadow</Badge>} <bdi>{denial.rule}</bdi>{" "}
      <span class="muted">{denial.limit_text}</span>
    </>
  );
}

/** The ID that the client gave its request, to be found in its own logs; strangers chose it. */
function requestOf(denial: Denial) {
  if (denial.request_id === null) return null;
  return (
    <div class="small muted request-id">
      <span class="unseen">request </span>
      <KeyText text={denial.request_id} most={40} copy />
    </div>
  );
}

/** Denials of different keys, newest first. A key leads to its page. */
export function DenialList({ denials }: { denials: Denial[] }) {
  const key: Column<Denial> = {
    title: "Key",
    kind: "main",
    cell: (denial) => (
      <>
        <a href={formatRoute("keys", [], { by: "denied", open: denial.fingerprint })}>
          <CounterKey value={denial.key} fingerprint={denial.fingerprint} most={60} />
        </a>
        <div class="small">{limitOf(denial)}</div>
      </>
    ),
  };
  return <Table columns={[key, TIME, RETRY]} rows={denials} keyOf={(denial) => denial.id} />;
}

/** Denials of one key, newest first. */
export function DenialTable({ denials, onWhy }: { denials: Denial[]; onWhy: (denial: Denial) => void }) {
  const columns: Column<Denial>[] = [
    TIME,
    {
      title: "Rule and limit",
      kind: "wide",
      cell: (denial) => (
        <>
          {limitOf(denial)}
          {requestOf(denial)}
        </>
      ),
    },
    RETRY,
    {
      title: "Decided by",
      cell: (denial) => (
        <>
          {denial.source} <span class="muted">by {denial.front_end}</span>
          {denial.cost !== 1 && <span class="muted">, cost {denial.cost}</span>}
        </>
      ),
    },
    {
      title: "Why",
      kind: "actions",
      cell: (denial) => (
        <Button small onClick={() => onWhy(denial)}>
          Why
        </Button>
      ),
    },
  ];
  return <Table columns={columns} rows={denials} keyOf={(denial) => denial.id} />;
}
