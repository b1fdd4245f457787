import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { type ApiProblem, problemOf } from "../api/problem.ts";
import { Button } from "./basics.tsx";
import { Dialog } from "./Dialog.tsx";
import { ProblemBox } from "./states.tsx";

/** Asks before something is changed, and shows why if it could not be. */
export function Confirm(props: {
  title: ComponentChildren;
  action: string;
  danger?: boolean;
  wide?: boolean;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const confirm = async () => {
    setBusy(true);
    try {
      await props.onConfirm();
      props.onClose();
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} wide={props.wide}>
      <div class="dialog-text">{props.children}</div>
      {problem && <ProblemBox problem={problem} />}
      <footer class="dialog-foot">
        <Button onClick={props.onClose}>Cancel</Button>
        <Button kind={props.danger ? "danger" : "primary"} disabled={busy} onClick={() => void confirm()}>
          {props.action}
        </Button>
      </footer>
    </Dialog>
  );
}
