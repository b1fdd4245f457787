import { get } from "../../api/client.ts";
import type { AuditChange, Page } from "../../api/types.ts";
import { useResource } from "../../state/resource.ts";
import { formatRoute } from "../../state/route.ts";
import { Panel, Time } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { actionText } from "../audit/action.ts";

/** What was changed lately, and by whom. The same changes are marked on the charts. */
export function Changes() {
  const load = (signal: AbortSignal) => get<Page<AuditChange>>("audit", { limit: 8 }, signal);
  const changes = useResource("latest changes", load, { everyMs: 30_000, onChange: true });
  return (
    <Panel title="What changed" tools={<a href={formatRoute("audit")}>Audit</a>}>
      <Shown resource={changes}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty icon="audit" title="Nothing has been changed yet" />
          ) : (
            <ul class="feed">
              {page.items.map((change) => (
                <li key={change.id}>
                  <span class="feed-time muted">
                    <Time at={change.at} />
                  </span>
                  <span>
                    <KeyText text={change.actor} most={32} /> {actionText(change.action)}{" "}
                    <b>
                      <KeyText text={change.object} most={48} />
                    </b>
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Shown>
    </Panel>
  );
}
