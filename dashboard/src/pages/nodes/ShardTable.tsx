import type { Shard } from "../../api/types.ts";
import { micros } from "../../text/format.ts";
import { Badge, type Tone } from "../../ui/basics.tsx";
import { type Column, Table } from "../../ui/Table.tsx";

const STATES: Record<Shard["state"], [Tone, string]> = {
  up: ["allowed", "up"],
  open: ["denied", "breaker open"],
  probing: ["error", "probing"],
};

const COLUMNS: Column<Shard>[] = [
  {
    title: "Shard",
    kind: "main",
    cell: (shard) => (
      <>
        <code>{shard.address}</code>
        {shard.detail && <div class="muted small">{shard.detail}</div>}
      </>
    ),
  },
  {
    title: "State",
    cell: (shard) => {
      const [tone, text] = STATES[shard.state] ?? ["plain", shard.state];
      return <Badge tone={tone}>{text}</Badge>;
    },
  },
  { title: "Latency", kind: "number", cell: (shard) => micros(shard.latency_us) },
];

export function ShardTable({ shards }: { shards: Shard[] }) {
  return <Table columns={COLUMNS} rows={shards} keyOf={(shard) => shard.address} />;
}
