import type { NodeInfo } from "../../api/types.ts";
import { Badge, Time } from "../../ui/basics.tsx";
import { type Column, Table } from "../../ui/Table.tsx";

const LEVELS = ["normal", "degraded", "emergency", "disabled"];

const BRIEF: Column<NodeInfo>[] = [
  {
    title: "Node",
    kind: "main",
    cell: (node) => (
      <>
        <bdi>{node.name}</bdi> {node.self && <span class="muted">(this node)</span>}
      </>
    ),
  },
  {
    title: "State",
    cell: ({ degradation }) => (
      <Badge tone={degradation === 0 ? "allowed" : degradation === 1 ? "error" : "denied"}>
        {LEVELS[degradation] ?? `level ${degradation}`}
      </Badge>
    ),
  },
  { title: "Seen", cell: (node) => <Time at={node.last_seen} /> },
];

const WHOLE: Column<NodeInfo>[] = [
  ...BRIEF,
  { title: "Version", cell: (node) => node.version },
  {
    title: "Rules",
    hint: (node) => node.rules_version,
    cell: (node) => <code>{node.rules_version.slice(0, 16)}</code>,
  },
];

export function NodeTable({ nodes, whole }: { nodes: NodeInfo[]; whole?: boolean }) {
  return <Table columns={whole ? WHOLE : BRIEF} rows={nodes} keyOf={(node) => node.name} />;
}
