import type { TopKey } from "../../api/types.ts";
import { formatRoute } from "../../state/route.ts";
import { count, exact } from "../../text/format.ts";
import { plain } from "../../text/visible.ts";
import { Button, Time } from "../../ui/basics.tsx";
import { CounterKey, KeyText } from "../../ui/KeyText.tsx";
import { type Column, Dash, Table } from "../../ui/Table.tsx";

interface TopTableProps {
  keys: TopKey[];
  by: string;
  onOpen: (key: TopKey) => void;
  /** Without it the table is brief: it stands on the page of a rule. */
  onOverride?: (key: TopKey) => void;
}

/** Top keys. A row opens its key; the override is one step away. */
export function TopTable({ keys, by, onOpen, onOverride }: TopTableProps) {
  const highest = Math.max(1, ...keys.map((key) => key.count));
  const share: Column<TopKey> = {
    title: by === "denied" ? "Denied" : "Requests",
    kind: "share",
    hint: (key) => `${exact(key.count)} ± ${exact(key.error)}`,
    cell: (key) => (
      <>
        <span class={`share share-${by}`} style={{ width: `${(key.count / highest) * 100}%` }} />
        <b>{count(key.count)}</b>
      </>
    ),
  };
  const name: Column<TopKey> = {
    title: "Key",
    kind: "main",
    cell: (key) => (
      <>
        <button
          type="button"
          class="row-link"
          aria-label={`Open ${plain(key.key ?? key.fingerprint).slice(0, 80)}`}
          onClick={() => onOpen(key)}
        />
        <CounterKey value={key.key} fingerprint={key.fingerprint} most={72} expand />
      </>
    ),
  };
  const last: Column<TopKey> = { title: "Last", cell: (key) => <Time at={key.last} /> };
  const whole = onOverride ? [name, RULE, TENANT, share, last, override(onOverride)] : [name, share, last];
  const keyOf = (key: TopKey) => `${key.domain}\0${key.rule}\0${key.fingerprint}`;
  return <Table columns={whole} rows={keys} keyOf={keyOf} links />;
}

const RULE: Column<TopKey> = {
  title: "Rule",
  kind: "wide",
  cell: (key) => (
    <>
      <a href={formatRoute("rules", [key.domain, key.rule])}>
        <KeyText text={key.rule} most={40} />
      </a>{" "}
      <span class="muted">{key.domain}</span>
    </>
  ),
};

const TENANT: Column<TopKey> = {
  title: "Tenant",
  cell: (key) =>
    key.tenant === null ? (
      <Dash />
    ) : (
      <a href={formatRoute("tenants", [key.tenant])}>
        <KeyText text={key.tenant} most={24} />
      </a>
    ),
};

export const NO_TENANT = "Overrides are for tenants, and this domain names none";

function override(onOverride: (key: TopKey) => void): Column<TopKey> {
  return {
    title: "Actions",
    kind: "actions",
    cell: (key) => (
      <Button
        small
        needs="operator"
        disabled={key.tenant === null}
        title={key.tenant === null ? NO_TENANT : undefined}
        onClick={() => onOverride(key)}
      >
        Override
      </Button>
    ),
  };
}
