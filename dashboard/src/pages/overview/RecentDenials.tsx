import { useDenials } from "../../api/reads.ts";
import { useLive } from "../../state/live.ts";
import { formatRoute } from "../../state/route.ts";
import { Panel } from "../../ui/basics.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { DenialList } from "../keys/DenialTable.tsx";

const SHOWN = 8;

/** The latest denials, as they happen. */
export function RecentDenials() {
  const stored = useDenials({ limit: SHOWN });
  const live = useLive((view) => view.denials);
  return (
    <Panel
      title="Latest denials"
      tools={<a href={formatRoute("keys", [], { by: "denied" })}>Most denied keys</a>}
    >
      <Shown resource={stored}>
        {(denials) => {
          const ids = new Set(denials.map((denial) => denial.id));
          const newer = live.filter((denial) => !ids.has(denial.id));
          const all = [...newer, ...denials].sort((a, b) => b.at.localeCompare(a.at)).slice(0, SHOWN);
          return all.length === 0 ? (
            <Empty icon="check" title="Nothing was denied">
              Denials appear here as they happen.
            </Empty>
          ) : (
            <DenialList denials={all} />
          );
        }}
      </Shown>
    </Panel>
  );
}
