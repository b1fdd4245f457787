import { useState } from "preact/hooks";

import { post } from "../../api/client.ts";
import { type ApiProblem, problemOf } from "../../api/problem.ts";
import type { Role } from "../../api/types.ts";
import { Button, Choice, Field } from "../../ui/basics.tsx";
import { Copy } from "../../ui/Copy.tsx";
import { Dialog } from "../../ui/Dialog.tsx";
import { ProblemBox } from "../../ui/states.tsx";

const ROLES: [Role, string][] = [
  ["check", "Check"],
  ["viewer", "Viewer"],
  ["operator", "Operator"],
  ["admin", "Admin"],
];
const ROLE_TEXTS: Record<Role, string> = {
  check: "May ask for decisions, and nothing else.",
  viewer: "May look at everything except tokens.",
  operator: "May also change quotas, usage, switches and rules.",
  admin: "May also create and revoke tokens.",
};
const ENDS = [
  ["30", "30 days"],
  ["90", "90 days"],
  ["", "Never"],
] as const;
const DAY_MS = 86_400_000;

/** Creates a token, and shows it once. */
export function NewToken({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [days, setDays] = useState<(typeof ENDS)[number][0]>("90");
  const [token, setToken] = useState<string | null>(null);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    const expires_at = days === "" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
    try {
      const created = await post<{ token: string }>("tokens", { name, role, expires_at });
      setToken(created.token);
      onDone();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  if (token) {
    return (
      <Dialog title={`The token ${name}`} onClose={onClose}>
        <p>Copy it now: it is not shown again.</p>
        <div class="secret">
          <code>{token}</code>
          <Copy text={token} label="Copy the token" />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New token" onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <Field label="Name" hint="It names whoever made a change in the audit trail.">
          <input
            required
            maxLength={256}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Choice label="Role" value={role} options={ROLES} onChoose={setRole} />
        <p class="muted">{ROLE_TEXTS[role]}</p>
        <Choice label="Expires" value={days} options={ENDS} onChoose={setDays} />
        {problem && <ProblemBox problem={problem} />}
        <footer class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!name.trim()}>
            Create
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
