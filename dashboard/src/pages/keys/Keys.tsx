import { useState } from "preact/hooks";

import { useDenials, useDomains, useTop, useTree } from "../../api/reads.ts";
import type { TopKey } from "../../api/types.ts";
import { filter, step, useRoute } from "../../state/place.ts";
import { percent } from "../../text/format.ts";
import { identify, type KeyIdentity } from "../../text/key.ts";
import { Choice, PageHead, Panel, SearchField } from "../../ui/basics.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { OverrideDialog, type OverrideTarget } from "../tenants/OverrideDialog.tsx";
import { DenialList } from "./DenialTable.tsx";
import { KeyDrawer } from "./KeyDrawer.tsx";
import { TopTable } from "./TopTable.tsx";

const BY = [
  ["denied", "Most denied"],
  ["active", "Most active"],
] as const;
const WINDOWS = [
  ["1m", "1 min"],
  ["10m", "10 min"],
  ["60m", "1 hour"],
] as const;

/** Who is limited: the keys with the most denials or requests, and all about one of them. */
export function Keys() {
  const { query } = useRoute();
  const by = query.by === "active" ? "active" : "denied";
  const window = query.window === "1m" || query.window === "60m" ? query.window : "10m";
  const top = useTop({ by, window, domain: query.domain, rule: query.rule, limit: 100 });
  const domains = useDomains();
  const tree = useTree();
  const identified = (key: { domain: string; rule: string; key: string | null }) =>
    identify(key, tree.data ?? [], domains.data ?? []);
  const [overriding, setOverriding] = useState<OverrideTarget | null>(null);
  const text = (query.q ?? "").toLowerCase();
  const note =
    top.data &&
    `${top.data.scope === "fleet" ? "Merged over all nodes" : "Of this node"}. Counts are estimates: they may be too low by ${percent(top.data.error_share, 1)} of all decisions.`;
  return (
    <>
      <PageHead title="Keys" note={note}>
        <Choice label="By" value={by} options={BY} onChoose={(value) => filter({ by: value })} />
        <Choice
          label="Window"
          value={window}
          options={WINDOWS}
          onChoose={(value) => filter({ window: value })}
        />
        <RuleFilter domains={domains.data ?? []} domain={query.domain ?? ""} rule={query.rule ?? ""} />
        <SearchField label="Filter keys" value={query.q ?? ""} onInput={(q) => filter({ q })} />
      </PageHead>
      <Shown resource={top} rows={10}>
        {(list) => {
          const found = list.keys.filter((key) => matches(key, text));
          if (found.length === 0 && query.q) return <OfRequest id={query.q} />;
          if (found.length === 0) return <NoKeys by={by} filtered={!!query.domain} />;
          return (
            <Panel>
              <TopTable
                keys={found}
                by={by}
                onOpen={(key) => step({ open: key.fingerprint })}
                onOverride={(key) => setOverriding(targetOf(identified(key)))}
              />
            </Panel>
          );
        }}
      </Shown>
      {query.open && (
        <KeyDrawer
          key={query.open}
          fingerprint={query.open}
          listed={top.data?.keys.find((key) => key.fingerprint === query.open)}
          identified={identified}
          onOverride={setOverriding}
          onClose={() => step({ open: undefined })}
        />
      )}
      {overriding && <OverrideDialog target={overriding} onClose={() => setOverriding(null)} />}
    </>
  );
}

function matches(key: TopKey, text: string): boolean {
  return [key.key, key.tenant, key.rule, key.fingerprint].some((part) => part?.toLowerCase().includes(text));
}

/** Returns what an override of a key is about; null if the key has no tenant. */
export function targetOf({ tenant, ...key }: KeyIdentity, limit?: string): OverrideTarget | null {
  return tenant === null ? null : { ...key, tenant, limit };
}

/** The denials of a request, by the ID that its client gave it: what the filter may be if no key has it. */
function OfRequest({ id }: { id: string }) {
  const denials = useDenials({ request_id: id });
  if (!denials.data?.length) {
    return (
      <Empty icon="search" title="No key matches the filter">
        No remembered denial has it as its request ID either.
      </Empty>
    );
  }
  return (
    <Panel title="Denials of the request with this ID">
      <DenialList denials={denials.data} />
    </Panel>
  );
}

function NoKeys({ by, filtered }: { by: string; filtered: boolean }) {
  if (filtered) return <Empty icon="search" title="No key matches the filter" />;
  return by === "denied" ? (
    <Empty icon="check" title="No key was denied in this time">
      Keys appear here as soon as a limit denies one of their requests.
    </Empty>
  ) : (
    <Empty icon="keys" title="No requests in this time">
      Send one from the page "Try it", or point a client at this node.
    </Empty>
  );
}

function RuleFilter(props: {
  domains: { domain: string; rules: { rule: string }[] }[];
  domain: string;
  rule: string;
}) {
  const rules = props.domains.find((domain) => domain.domain === props.domain)?.rules ?? [];
  return (
    <>
      <select
        aria-label="Domain"
        value={props.domain}
        onChange={(event) => filter({ domain: event.currentTarget.value, rule: "" })}
      >
        <option value="">All domains</option>
        {props.domains.map(({ domain }) => (
          <option key={domain} value={domain}>
            {domain}
          </option>
        ))}
      </select>
      {props.domain && (
        <select
          aria-label="Rule"
          value={props.rule}
          onChange={(event) => filter({ rule: event.currentTarget.value })}
        >
          <option value="">All rules</option>
          {rules.map(({ rule }) => (
            <option key={rule} value={rule}>
              {rule}
            </option>
          ))}
        </select>
      )}
    </>
  );
}
