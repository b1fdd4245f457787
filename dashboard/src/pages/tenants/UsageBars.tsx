import type { Usage } from "../../api/types.ts";
import { formatRoute } from "../../state/route.ts";
import { ago, dateTime, exact, percent } from "../../text/format.ts";
import { Meter } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty } from "../../ui/states.tsx";

/** How much of each limit a tenant has used. */
export function UsageBars({ usage }: { usage: Usage[] }) {
  if (usage.length === 0) {
    return (
      <Empty icon="rules" title="No limit applies to this tenant">
        No rule names tenants, or all of them are unlimited for this one.
      </Empty>
    );
  }
  return (
    <ul class="usage">
      {usage.map((item) => (
        <li key={`${item.domain}\0${item.rule}\0${item.descriptor}\0${item.name}`}>
          <div class="usage-name">
            <a href={formatRoute("rules", [item.domain, item.rule])}>
              <KeyText text={item.rule} most={48} />
            </a>{" "}
            <span class="muted">
              {item.name} · {item.domain} · from {item.from}
            </span>
          </div>
          <Meter used={item.used} of={item.limit} label={`${item.rule} ${item.name}`} />
          <div class="usage-numbers">
            <span>
              <b>{exact(item.used)}</b> of {exact(item.limit)}{" "}
              <span class="muted">({percent(item.used, item.limit)})</span>
            </span>
            <span class="muted" title={dateTime(item.window.end)}>
              {item.used > 0 ? `free ${ago(item.window.end)}` : "unused"}
            </span>
          </div>
        </li>
      ))}
    </ul>
  );
}
