import { useState } from "preact/hooks";

import { type ApiProblem, problemOf } from "../../api/problem.ts";
import { signIn } from "../../state/session.ts";
import { Button, Field } from "../../ui/basics.tsx";
import { Logo } from "../../ui/icons.tsx";
import { ProblemBox } from "../../ui/states.tsx";

/** Exchanges a token for a session. The token is not kept: the browser gets a cookie that no script can read. */
export function SignIn({ ended }: { ended: boolean }) {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await signIn(token.trim());
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return (
    <main class="alone">
      <form class="sign-in" onSubmit={submit}>
        <div class="brand">
          <Logo size={36} />
          <h1>Tidegate</h1>
        </div>
        {ended && !problem && (
          <p class="notice">The session has ended. Sign in again to go on where you were.</p>
        )}
        <Field label="Token" hint="A viewer may look at everything, an operator may also change it.">
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            required
            autofocus
            value={token}
            placeholder="tg_…"
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </Field>
        {problem && <ProblemBox problem={problem} />}
        <Button kind="primary" type="submit" disabled={busy || token.trim() === ""}>
          {busy ? "Signing in" : "Sign in"}
        </Button>
        <p class="muted small">
          The first token is in the file <code>admin-token</code> of the node's data folder. Create others
          with <code>tidegate token create NAME --role viewer</code>.
        </p>
      </form>
    </main>
  );
}
