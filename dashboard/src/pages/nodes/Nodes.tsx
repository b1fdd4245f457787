import { useOverview } from "../../api/reads.ts";
import { useLive } from "../../state/live.ts";
import { bytes, count, seconds } from "../../text/format.ts";
import { Badge, Meter, PageHead, Panel } from "../../ui/basics.tsx";
import { Shown } from "../../ui/states.tsx";
import { NodeTable } from "./NodeTable.tsx";
import { ShardTable } from "./ShardTable.tsx";

/** Every node of the fleet, and what this node depends on. */
export function Nodes() {
  const overview = useOverview();
  const shards = useLive((view) => view.store);
  return (
    <>
      <PageHead
        title="Nodes"
        note="Nodes that share a store know each other; with the embedded store there is one."
      />
      <Shown resource={overview}>
        {(data) => (
          <>
            <Panel title="Fleet">
              <NodeTable nodes={data.nodes} whole />
            </Panel>
            <div class="grid-two">
              <Panel title="Store of this node">
                {data.store.kind === "memory" ? (
                  <p class="pad">
                    <Badge tone="allowed">up</Badge> Counters are in the memory of this node, and in a
                    snapshot on disk.
                  </p>
                ) : (
                  <ShardTable shards={shards.length > 0 ? shards : data.store.shards} />
                )}
              </Panel>
              <Panel title="This node">
                <dl class="facts">
                  <dt>Degradation</dt>
                  <dd>
                    <Badge tone={data.degradation.level === 0 ? "allowed" : "error"}>
                      {data.degradation.name}
                    </Badge>{" "}
                    {data.degradation.reasons.join("; ")}
                  </dd>
                  <dt>Catalog</dt>
                  <dd>
                    <Badge tone={data.catalog.state === "ready" ? "allowed" : "error"}>
                      {data.catalog.state}
                    </Badge>{" "}
                    {data.catalog.kind} {data.catalog.detail}
                  </dd>
                  <dt>Clock</dt>
                  <dd>
                    {data.catalog.clock_skew_ms === null
                      ? "the node's own"
                      : `${data.catalog.clock_skew_ms} ms from the catalog's`}
                  </dd>
                  <dt>Keys</dt>
                  <dd>
                    <Meter used={data.keys.used} of={data.keys.max} label="Keys in use" />
                    {count(data.keys.used)} of {count(data.keys.max)}
                  </dd>
                  <dt>Memory</dt>
                  <dd>
                    <Meter used={data.memory.used_bytes} of={data.memory.max_bytes} label="Memory in use" />
                    {bytes(data.memory.used_bytes)} of {bytes(data.memory.max_bytes)}
                  </dd>
                  <dt>Up</dt>
                  <dd>{seconds(data.uptime_s)}</dd>
                </dl>
              </Panel>
            </div>
          </>
        )}
      </Shown>
    </>
  );
}
