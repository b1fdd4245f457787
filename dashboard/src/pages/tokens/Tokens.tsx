import { useState } from "preact/hooks";

import { get, remove, segment } from "../../api/client.ts";
import type { Token } from "../../api/types.ts";
import { useResource } from "../../state/resource.ts";
import { useMay } from "../../state/session.ts";
import { Badge, Button, PageHead, Panel, Time } from "../../ui/basics.tsx";
import { Confirm } from "../../ui/Confirm.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/Table.tsx";
import { toast } from "../../ui/Toasts.tsx";
import { NewToken } from "./NewToken.tsx";

/** Who may use the API. Only administrators see it. */
export function Tokens() {
  const may = useMay("admin");
  const load = async (signal: AbortSignal) => (await get<{ items: Token[] }>("tokens", {}, signal)).items;
  const tokens = useResource(may ? "tokens" : null, load);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  return (
    <>
      <PageHead title="Tokens" note="One for each person or program, with the least role that is enough.">
        <Button kind="primary" needs="admin" icon="plus" onClick={() => setCreating(true)}>
          New token
        </Button>
      </PageHead>
      {!may ? (
        <Empty icon="tokens" title="Only administrators see tokens">
          Sign in with a token of the role admin.
        </Empty>
      ) : (
        <Shown resource={tokens}>
          {(list) => (
            <Panel>
              <TokenTable tokens={list} onRevoke={setRevoking} />
            </Panel>
          )}
        </Shown>
      )}
      {creating && <NewToken onClose={() => setCreating(false)} onDone={tokens.reload} />}
      {revoking && (
        <Confirm
          title={`Revoke ${revoking.name}?`}
          action="Revoke"
          danger
          onClose={() => setRevoking(null)}
          onConfirm={async () => {
            await remove(`tokens/${segment(revoking.id)}`);
            toast(`The token ${revoking.name} is revoked`);
            tokens.reload();
          }}
        >
          <p>Whoever uses it is refused within two seconds, on every node. This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}

function TokenTable({ tokens, onRevoke }: { tokens: Token[]; onRevoke: (token: Token) => void }) {
  const sorted = [...tokens].sort(
    (a, b) => Number(!isValid(a)) - Number(!isValid(b)) || a.name.localeCompare(b.name),
  );
  const columns: Column<Token>[] = [
    {
      title: "Name",
      kind: "main",
      cell: (token) => (
        <>
          <KeyText text={token.name} most={48} />
          <div class="muted small">
            <code>{token.id}</code>
          </div>
        </>
      ),
    },
    { title: "Role", cell: (token) => token.role },
    { title: "State", cell: (token) => <TokenState token={token} /> },
    {
      title: "Last used",
      cell: (token) => (token.last_used_at ? <Time at={token.last_used_at} /> : "never"),
    },
    { title: "Expires", cell: (token) => (token.expires_at ? <Time at={token.expires_at} /> : "never") },
    { title: "Created", cell: (token) => <Time at={token.created_at} /> },
    {
      title: "Actions",
      kind: "actions",
      cell: (token) =>
        isValid(token) && (
          <Button small kind="quiet" needs="admin" onClick={() => onRevoke(token)}>
            Revoke
          </Button>
        ),
    },
  ];
  return (
    <Table
      columns={columns}
      rows={sorted}
      keyOf={(token) => token.id}
      rowClass={(token) => (isValid(token) ? undefined : "muted")}
    />
  );
}

function TokenState({ token }: { token: Token }) {
  if (token.revoked_at) return <Badge tone="off">revoked</Badge>;
  return isValid(token) ? <Badge tone="allowed">valid</Badge> : <Badge tone="off">expired</Badge>;
}

function isValid(token: Token): boolean {
  const expired = token.expires_at !== null && Date.parse(token.expires_at) <= Date.now();
  return token.revoked_at === null && !expired;
}
