import { useState } from "preact/hooks";

import { go } from "../../state/place.ts";
import { Button, Field } from "../../ui/basics.tsx";
import { Dialog } from "../../ui/Dialog.tsx";

/** Asks for the name of a domain, and opens its editor. Nothing is stored before the first push. */
export function NewDomain({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (name.trim()) go("rules", [name.trim()], { tab: "edit" });
  };
  return (
    <Dialog title="New domain" onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <Field
          label="Name"
          hint="Requests name the domain; its rules are kept in the catalog, with versions."
        >
          <input
            required
            maxLength={256}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <footer class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!name.trim()}>
            Write its rules
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
