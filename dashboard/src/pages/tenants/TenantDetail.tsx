import { useState } from "preact/hooks";

import { get, post, remove, segment } from "../../api/client.ts";
import { useDomains } from "../../api/reads.ts";
import type { TenantUsage } from "../../api/types.ts";
import { go } from "../../state/place.ts";
import { useResource } from "../../state/resource.ts";
import { formatRoute } from "../../state/route.ts";
import { plain } from "../../text/visible.ts";
import { Button, PageHead, Panel } from "../../ui/basics.tsx";
import { Confirm } from "../../ui/Confirm.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { toast } from "../../ui/Toasts.tsx";
import { OverrideDialog } from "./OverrideDialog.tsx";
import { OverrideTimeline } from "./OverrideTimeline.tsx";
import { TierPicker } from "./TierPicker.tsx";
import { readTenant, removeOverride } from "./tenant.ts";
import { UsageBars } from "./UsageBars.tsx";
import { UsageLink } from "./UsageLink.tsx";

type Open = "override" | "reset" | "link" | "delete" | { remove: number };

/** One tenant: its tier, overrides and usage. */
export function TenantDetail({ tenant }: { tenant: string }) {
  const quota = useResource(`tenant ${tenant}`, (signal) => readTenant(tenant, signal), { onChange: true });
  const usage = useResource(
    `usage ${tenant}`,
    (signal) => get<TenantUsage>(`usage/${segment(tenant)}`, {}, signal),
    {
      everyMs: 3_000,
      onChange: true,
    },
  );
  const domains = useDomains();
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const stored = quota.data ?? null;
  const overrides = stored?.quotas.overrides ?? [];
  const reload = () => {
    quota.reload();
    usage.reload();
  };
  const name = plain(tenant).slice(0, 60);
  return (
    <>
      <nav class="crumbs" aria-label="Place">
        <a href={formatRoute("tenants")}>Tenants</a>
      </nav>
      <PageHead
        title={<KeyText text={tenant} copy />}
        note={
          stored
            ? undefined
            : quota.data === null && "Nothing is stored about this tenant: it has the limits of the rules."
        }
      >
        <Button needs="operator" icon="external" onClick={() => setOpen("link")}>
          Usage link
        </Button>
        <Button needs="operator" onClick={() => setOpen("reset")}>
          Reset usage
        </Button>
        <Button kind="primary" needs="operator" icon="plus" onClick={() => setOpen("override")}>
          Override
        </Button>
      </PageHead>
      <Panel
        title="Usage"
        tools={
          usage.data && (
            <span class="muted">{usage.data.scope === "fleet" ? "over all nodes" : "on this node"}</span>
          )
        }
      >
        <Shown resource={usage}>{(data) => <UsageBars usage={data.usage} />}</Shown>
      </Panel>
      <Panel title="Tier">
        <Shown resource={quota} rows={1}>
          {(data) => (
            <TierPicker
              tenant={tenant}
              tier={data?.tier ?? null}
              domains={domains.data ?? []}
              onDone={reload}
            />
          )}
        </Shown>
      </Panel>
      <Panel title="Overrides">
        <Shown resource={quota}>
          {() =>
            overrides.length === 0 ? (
              <Empty icon="tenants" title="No overrides">
                An override gives this tenant a limit of its own, from now or later, for a time or for good.
              </Empty>
            ) : (
              <OverrideTimeline overrides={overrides} onRemove={(index) => setOpen({ remove: index })} />
            )
          }
        </Shown>
      </Panel>
      {stored && (
        <div class="foot-tools">
          <Button kind="quiet" needs="operator" onClick={() => setOpen("delete")}>
            Delete tier and overrides
          </Button>
        </div>
      )}
      {open === "override" && (
        <OverrideDialog target={{ tenant, entries: null }} onClose={close} onDone={reload} />
      )}
      {open === "link" && <UsageLink tenant={tenant} onClose={close} />}
      {open === "reset" && (
        <Confirm
          title={`Reset the usage of ${name}?`}
          action="Reset to zero"
          danger
          onClose={close}
          onConfirm={async () => {
            const { reset } = await post<{ reset: number }>(`usage/${segment(tenant)}/reset`);
            toast(`${reset} limits were reset`);
            reload();
          }}
        >
          <p>The tenant gets the whole of its limits again at once. This is recorded in the audit trail.</p>
        </Confirm>
      )}
      {open === "delete" && (
        <Confirm
          title={`Delete ${name}?`}
          action="Delete tier and overrides"
          danger
          onClose={close}
          onConfirm={async () => {
            await remove(`quotas/${segment(tenant)}`);
            toast("Deleted: the limits of the rules apply again");
            go("tenants");
          }}
        >
          <p>The limits of the rules apply to the tenant again. Its counters stay.</p>
        </Confirm>
      )}
      {typeof open === "object" && open && (
        <Confirm
          title="Remove the override?"
          action="Remove"
          danger
          onClose={close}
          onConfirm={async () => {
            await removeOverride(tenant, open.remove, stored?.revision ?? 0);
            toast("The override is removed");
            reload();
          }}
        >
          <p>The limit of the tier or of the rule applies again, with the same counter.</p>
        </Confirm>
      )}
    </>
  );
}
