import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

import { IconButton } from "./basics.tsx";

/** A modal dialog. The browser keeps the focus in it, closes it on Escape, and gives the focus back. */
export function Dialog(props: {
  title: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
  side?: boolean;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  const shape = props.side ? "dialog-side" : props.wide ? "dialog-wide" : "";
  return (
    <dialog
      ref={ref}
      class={`dialog ${shape}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) props.onClose();
      }}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={titleId}>{props.title}</h2>
          <IconButton icon="close" label="Close" onClick={props.onClose} />
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
