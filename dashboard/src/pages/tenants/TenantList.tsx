import { useEffect, useState } from "preact/hooks";

import { get } from "../../api/client.ts";
import { useDomains } from "../../api/reads.ts";
import type { DomainListing, Page, QuotaItem } from "../../api/types.ts";
import { filter, useRoute } from "../../state/place.ts";
import { useResource } from "../../state/resource.ts";
import { formatRoute } from "../../state/route.ts";
import { phase } from "../../state/timeline.ts";
import { overrideText } from "../../text/override.ts";
import { Badge, Button, PageHead, Panel, SearchField, Time } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { type Column, Dash, Table } from "../../ui/Table.tsx";

const PER_PAGE = 50;
/** The search waits until the reader stops typing. */
const TYPING_MS = 200;

/** The tiers that the rules define. */
export function tiersOf(domains: DomainListing[]): string[] {
  const tiers = domains.flatMap((domain) => domain.rules.flatMap((rule) => rule.tiers.map(([tier]) => tier)));
  return [...new Set(tiers)].sort();
}

/** Tenants with a tier or overrides, found by the beginning of their name. */
export function TenantList() {
  const { query } = useRoute();
  const [q, setQ] = useState(query.q ?? "");
  useEffect(() => {
    const timer = setTimeout(() => setQ(query.q ?? ""), TYPING_MS);
    return () => clearTimeout(timer);
  }, [query.q]);
  const domains = useDomains();
  const search = { q, tier: query.tier, cursor: query.cursor, limit: PER_PAGE };
  const load = (signal: AbortSignal) => get<Page<QuotaItem>>("quotas", search, signal);
  const tenants = useResource(JSON.stringify(["quotas", search]), load, { onChange: true });
  return (
    <>
      <PageHead title="Tenants" note="Customers with a tier or limits of their own.">
        <select
          aria-label="Tier"
          value={query.tier ?? ""}
          onChange={(event) => filter({ tier: event.currentTarget.value, cursor: "" })}
        >
          <option value="">All tiers</option>
          {tiersOf(domains.data ?? []).map((tier) => (
            <option key={tier}>{tier}</option>
          ))}
        </select>
        <SearchField
          label="Search tenants"
          placeholder="Name begins with"
          value={query.q ?? ""}
          onInput={(text) => filter({ q: text, cursor: "" })}
        />
      </PageHead>
      <Shown resource={tenants} rows={10}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <NoTenants q={q} />
            ) : (
              <Panel>
                <Table columns={COLUMNS} rows={page.items} keyOf={(tenant) => tenant.tenant} links />
              </Panel>
            )}
            <div class="pager">
              {query.cursor && (
                <Button small onClick={() => filter({ cursor: "" })}>
                  First page
                </Button>
              )}
              {page.next_cursor && (
                <Button small onClick={() => filter({ cursor: page.next_cursor ?? "" })}>
                  Next {PER_PAGE}
                </Button>
              )}
            </div>
          </>
        )}
      </Shown>
    </>
  );
}

function NoTenants({ q }: { q: string }) {
  if (q === "") {
    return (
      <Empty icon="tenants" title="No tenant has a tier or an override yet">
        Everybody has the limits of the rules. Override a key from its row on the page{" "}
        <a href={formatRoute("keys")}>Keys</a>, or search for a tenant to give it a tier.
      </Empty>
    );
  }
  return (
    <Empty icon="search" title="Nothing is stored about such a tenant">
      It may still send requests, with the limits of the rules.{" "}
      <a href={formatRoute("tenants", [q])}>
        Open <KeyText text={q} most={40} />
      </a>
    </Empty>
  );
}

const COLUMNS: Column<QuotaItem>[] = [
  {
    title: "Tenant",
    kind: "main",
    cell: (tenant) => (
      <a class="row-link-text" href={formatRoute("tenants", [tenant.tenant])}>
        <KeyText text={tenant.tenant} most={60} />
      </a>
    ),
  },
  { title: "Tier", cell: (tenant) => (tenant.tier ? <Badge tone="accent">{tenant.tier}</Badge> : <Dash />) },
  { title: "Overrides", kind: "wide", cell: (tenant) => <OverrideTexts tenant={tenant} /> },
  { title: "Changed", cell: (tenant) => <Time at={tenant.updated_at} /> },
];

function OverrideTexts({ tenant }: { tenant: QuotaItem }) {
  if (tenant.overrides.length === 0) return <Dash />;
  return (
    <>
      {tenant.overrides.slice(0, 2).map((override, index) => {
        const when = phase(override, Date.now());
        return (
          <div key={index} class={when === "current" ? "" : "muted"}>
            {overrideText(override)} {when !== "current" && <span>({when})</span>}
          </div>
        );
      })}
      {tenant.overrides.length > 2 && <span class="muted">and {tenant.overrides.length - 2} more</span>}
    </>
  );
}
