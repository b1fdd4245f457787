import { useState } from "preact/hooks";

import { get } from "../../api/client.ts";
import type { AuditChange, Page } from "../../api/types.ts";
import { filter, useRoute } from "../../state/place.ts";
import { useResource } from "../../state/resource.ts";
import { dateTime } from "../../text/format.ts";
import { Button, PageHead, Panel, SearchField, Time } from "../../ui/basics.tsx";
import { Dialog } from "../../ui/Dialog.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/Table.tsx";
import { actionText } from "./action.ts";

const KINDS = ["tenant", "rules", "switch", "token", "usage"];
const PER_PAGE = 50;

/** Who changed what, and when. */
export function Audit() {
  const { query } = useRoute();
  const search = {
    kind: query.kind,
    actor: query.actor,
    object: query.object,
    cursor: query.cursor,
    limit: PER_PAGE,
  };
  const load = (signal: AbortSignal) => get<Page<AuditChange>>("audit", search, signal);
  const changes = useResource(JSON.stringify(["audit", search]), load, { onChange: true, everyMs: 30_000 });
  const [open, setOpen] = useState<AuditChange | null>(null);
  return (
    <>
      <PageHead title="Audit" note="Every change of tenants, rules, switches and tokens.">
        <select
          aria-label="Kind"
          value={query.kind ?? ""}
          onChange={(event) => filter({ kind: event.currentTarget.value, cursor: "" })}
        >
          <option value="">All kinds</option>
          {KINDS.map((kind) => (
            <option key={kind}>{kind}</option>
          ))}
        </select>
        <SearchField
          label="Name of the object"
          value={query.object ?? ""}
          onInput={(object) => filter({ object, cursor: "" })}
        />
        <label class="search-field">
          <span class="unseen">Changed by</span>
          <input
            type="search"
            placeholder="Changed by"
            value={query.actor ?? ""}
            onInput={(event) => filter({ actor: event.currentTarget.value, cursor: "" })}
          />
        </label>
      </PageHead>
      <Shown resource={changes} rows={10}>
        {(page) => (
          <>
            {page.items.length === 0 ? (
              <Empty icon="audit" title="No such change" />
            ) : (
              <Panel>
                <Table columns={columns(setOpen)} rows={page.items} keyOf={(change) => change.id} />
              </Panel>
            )}
            <div class="pager">
              {query.cursor && (
                <Button small onClick={() => filter({ cursor: "" })}>
                  Newest
                </Button>
              )}
              {page.next_cursor && (
                <Button small onClick={() => filter({ cursor: page.next_cursor ?? "" })}>
                  Older
                </Button>
              )}
            </div>
          </>
        )}
      </Shown>
      {open && <ChangeDialog change={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function columns(onOpen: (change: AuditChange) => void): Column<AuditChange>[] {
  return [
    {
      title: "What",
      kind: "main",
      cell: (change) => (
        <>
          {actionText(change.action)}{" "}
          <b>
            <KeyText text={change.object} most={60} />
          </b>
        </>
      ),
    },
    { title: "Who", cell: (change) => <KeyText text={change.actor} most={32} /> },
    { title: "When", cell: (change) => <Time at={change.at} /> },
    { title: "Request", cell: (change) => <code class="muted">{change.request_id.slice(0, 16)}</code> },
    {
      title: "Details",
      kind: "actions",
      cell: (change) => (
        <Button small kind="quiet" onClick={() => onOpen(change)}>
          Details
        </Button>
      ),
    },
  ];
}

function ChangeDialog({ change, onClose }: { change: AuditChange; onClose: () => void }) {
  return (
    <Dialog title={`Change ${change.id}`} onClose={onClose} wide>
      <p>
        <KeyText text={change.actor} /> {actionText(change.action)}{" "}
        <b>
          <KeyText text={change.object} />
        </b>{" "}
        on {dateTime(change.at)}, by request <code>{change.request_id}</code>.
      </p>
      <div class="columns">
        <Value title="Before" value={change.before} />
        <Value title="After" value={change.after} />
      </div>
    </Dialog>
  );
}

function Value({ title, value }: { title: string; value: unknown }) {
  return (
    <div>
      <h3>{title}</h3>
      {value === null || value === undefined ? (
        <p class="muted">It did not exist.</p>
      ) : (
        <pre class="json">{JSON.stringify(value, null, 2)}</pre>
      )}
    </div>
  );
}
