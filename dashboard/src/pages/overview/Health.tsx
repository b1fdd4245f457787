import type { Overview } from "../../api/types.ts";
import { useLive } from "../../state/live.ts";
import { formatRoute } from "../../state/route.ts";
import { Badge, Panel, Time } from "../../ui/basics.tsx";
import { NodeTable } from "../nodes/NodeTable.tsx";
import { ShardTable } from "../nodes/ShardTable.tsx";

/** The state of nodes, stores, catalog and rules. */
export function Health({ overview }: { overview: Overview }) {
  const shards = useLive((view) => view.store);
  const { rules, catalog, store } = overview;
  const reload = rules.last_reload;
  return (
    <Panel title="Health" tools={<a href={formatRoute("nodes")}>Nodes and stores</a>}>
      <div class="grid-two inner">
        <div>
          <h3>Nodes</h3>
          <NodeTable nodes={overview.nodes} />
        </div>
        <div>
          <h3>Store</h3>
          {store.kind === "memory" ? (
            <p>
              <Badge tone="allowed">up</Badge> In the memory of this node.
            </p>
          ) : (
            <ShardTable shards={shards.length > 0 ? shards : store.shards} />
          )}
          <h3>Catalog</h3>
          <p>
            <Badge tone={catalog.state === "ready" ? "allowed" : "error"}>{catalog.state}</Badge>{" "}
            {catalog.kind}
            {catalog.detail && <span class="muted"> · {catalog.detail}</span>}
          </p>
          <h3>Rules</h3>
          <p>
            {reload && (
              <Badge tone={reload.ok ? "allowed" : "error"}>{reload.ok ? "loaded" : "rejected"}</Badge>
            )}{" "}
            {rules.rules} rules, {rules.limits} limits in {rules.domains} domains
            {reload && (
              <span class="muted">
                {" "}
                · <Time at={reload.at} /> {reload.detail}
              </span>
            )}
          </p>
        </div>
      </div>
    </Panel>
  );
}
