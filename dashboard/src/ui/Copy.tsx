import { useState } from "preact/hooks";

import { IconButton } from "./basics.tsx";

/** Copies a text. Where the clipboard is not available (plain HTTP on another host), the text is selected instead. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await writeClipboard(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <IconButton icon={done ? "check" : "copy"} label={done ? "Copied" : label} onClick={() => void copy()} />
  );
}

async function writeClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
