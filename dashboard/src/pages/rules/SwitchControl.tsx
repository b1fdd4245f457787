import { useState } from "preact/hooks";

import { put, segment } from "../../api/client.ts";
import type { SwitchMode, SwitchView } from "../../api/types.ts";
import { useMay } from "../../state/session.ts";
import { plain } from "../../text/visible.ts";
import { Choice } from "../../ui/basics.tsx";
import { Confirm } from "../../ui/Confirm.tsx";
import { toast } from "../../ui/Toasts.tsx";

const MODES = [
  ["enforce", "Enforce"],
  ["shadow", "Shadow"],
  ["off", "Off"],
] as const;

const EFFECTS: Record<SwitchMode, string> = {
  enforce: "Requests over the limit are denied again, at once and on every node.",
  shadow: "Requests are still evaluated and counted, and nothing is denied.",
  off: "Requests are not evaluated and not counted at all.",
};

/** The switch of a rule, or of all rules (`*`). Flipping it needs a confirmation, because it takes effect everywhere. */
export function SwitchControl(props: {
  rule: string;
  mode: SwitchMode;
  from?: string | null;
  onDone: () => void;
}) {
  const { rule, mode } = props;
  const [chosen, setChosen] = useState<SwitchMode | null>(null);
  const may = useMay("operator");
  const subject = rule === "*" ? "all rules" : plain(rule).slice(0, 60);
  const flip = async (next: SwitchMode) => {
    const view = await put<SwitchView>(`switches/${segment(rule)}`, { mode: next });
    toast(view.note ?? `The switch of ${subject} is now ${view.mode}`);
    props.onDone();
  };
  return (
    <div class="switch" title={may ? undefined : "Needs the role operator"}>
      <span class="switch-name muted">{rule === "*" ? "All rules" : "Switch"}</span>
      <fieldset disabled={!may} class="plain-fieldset">
        <legend class="unseen">Switch of {subject}</legend>
        <Choice label={`Mode of ${subject}`} value={mode} options={MODES} onChoose={setChosen} />
      </fieldset>
      {props.from && props.from !== "catalog" && <span class="muted small">from {props.from}</span>}
      {chosen && chosen !== mode && (
        <Confirm
          title={`Switch ${subject} to ${chosen}?`}
          action={chosen === "enforce" ? "Enforce" : chosen === "shadow" ? "Switch to shadow" : "Switch off"}
          danger={chosen === "off" || rule === "*"}
          onClose={() => setChosen(null)}
          onConfirm={() => flip(chosen)}
        >
          <p>{EFFECTS[chosen]}</p>
          {rule === "*" && chosen !== "enforce" && (
            <p>
              <b>This lifts every limit of the service.</b>
            </p>
          )}
        </Confirm>
      )}
    </div>
  );
}
