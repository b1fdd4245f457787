import type { DryRun } from "../../api/types.ts";
import { count } from "../../text/format.ts";
import { Panel } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/Table.tsx";

type Row = DryRun["rules"][number];

const change = (row: Row) => row.then.denied - row.now.denied;

const outcome = (counts: Row["now"]) => (
  <>
    {count(counts.denied)} <span class="muted">of {count(counts.allowed + counts.denied)}</span>
  </>
);

const COLUMNS: Column<Row>[] = [
  {
    title: "Rule and limit",
    kind: "main",
    cell: (row) => (
      <>
        <KeyText text={row.rule} most={48} /> <span class="muted">{row.limit}</span>
        {row.note && <div class="muted small">{row.note}</div>}
      </>
    ),
  },
  { title: "Denied now", kind: "number", cell: (row) => outcome(row.now) },
  { title: "Denied then", kind: "number", cell: (row) => outcome(row.then) },
  {
    title: "Change",
    kind: "number",
    tone: (row) => (change(row) > 0 ? "ink-denied" : change(row) < 0 ? "ink-allowed" : undefined),
    cell: (row) =>
      change(row) > 0 ? `+${count(change(row))}` : change(row) < 0 ? `−${count(-change(row))}` : "none",
  },
  { title: "Error", cell: (row) => <span class="muted">{row.error}</span> },
];

/** What the changed rules would have done with the recorded traffic of the last hour. */
export function DryRunTable({ result }: { result: DryRun }) {
  return (
    <Panel
      title="Dry run against the last hour"
      tools={<span class="muted">counts only; the error is stated per rule</span>}
    >
      {result.rules.length === 0 ? (
        <Empty icon="rules" title="No traffic of these rules was recorded in the last hour" />
      ) : (
        <Table columns={COLUMNS} rows={result.rules} keyOf={(row) => `${row.rule}\0${row.limit}`} />
      )}
    </Panel>
  );
}
