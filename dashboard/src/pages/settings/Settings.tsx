import { get } from "../../api/client.ts";
import type { Setting } from "../../api/types.ts";
import { filter, useRoute } from "../../state/place.ts";
import { useResource } from "../../state/resource.ts";
import { Badge, Choice, PageHead, Panel, SearchField } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/Table.tsx";

const SHOWN = [
  ["all", "All"],
  ["set", "Not default"],
] as const;

/** The settings in force, and where each came from. */
export function Settings() {
  const { query } = useRoute();
  const load = async (signal: AbortSignal) =>
    (await get<{ settings: Setting[] }>("settings", {}, signal)).settings;
  const settings = useResource("settings", load);
  const shown = query.show === "set" ? "set" : "all";
  const text = (query.q ?? "").toLowerCase();
  return (
    <>
      <PageHead
        title="Settings"
        note="In force on this node. Change them in the file, the environment or a flag."
      >
        <Choice
          label="Which"
          value={shown}
          options={SHOWN}
          onChoose={(value) => filter({ show: value === "all" ? "" : value })}
        />
        <SearchField label="Search settings" value={query.q ?? ""} onInput={(q) => filter({ q })} />
      </PageHead>
      <Shown resource={settings} rows={12}>
        {(all) => {
          const found = all.filter(
            (setting) =>
              `${setting.name} ${setting.value} ${setting.from}`.toLowerCase().includes(text) &&
              (shown === "all" || setting.from !== "default"),
          );
          if (found.length === 0) return <Empty icon="settings" title="No setting matches" />;
          return (
            <Panel>
              <Table columns={COLUMNS} rows={found} keyOf={(setting) => setting.name} />
            </Panel>
          );
        }}
      </Shown>
    </>
  );
}

const COLUMNS: Column<Setting>[] = [
  { title: "Setting", kind: "main", cell: (setting) => <code>{setting.name}</code> },
  {
    title: "Value",
    kind: "wide",
    cell: (setting) =>
      setting.secret ? (
        <span class="muted">secret</span>
      ) : (
        <code>
          <KeyText text={setting.value} expand />
        </code>
      ),
  },
  {
    title: "From",
    cell: ({ from }) =>
      from === "default" ? <span class="muted">default</span> : <Badge tone="accent">{from}</Badge>,
  },
];
