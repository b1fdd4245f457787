import { useEffect } from "preact/hooks";

import { togglePause } from "../state/live.ts";
import { go } from "../state/place.ts";
import { PAGES_LIST } from "./pages.ts";

/** The second key must follow the `g` within this time. */
const SEQUENCE_MS = 1_500;

/** Listens for the keys that the help lists. Keys that are typed into a field are left alone. */
export function useShortcuts(onHelp: () => void): void {
  useEffect(() => {
    let goUntil = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (Date.now() < goUntil) {
        goUntil = 0;
        const page = PAGES_LIST.find((page) => page.key === event.key);
        if (page) go(page.name);
      } else if (event.key === "g") goUntil = Date.now() + SEQUENCE_MS;
      else if (event.key === "?") onHelp();
      else if (event.key === "p") togglePause();
      else if (event.key === "/") {
        const field = document.querySelector<HTMLElement>("main [data-search]");
        if (!field) return;
        event.preventDefault();
        field.focus();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.tagName) return false;
  const isText =
    element instanceof HTMLInputElement && !["radio", "checkbox", "button"].includes(element.type);
  return (
    isText || element.tagName === "TEXTAREA" || element.tagName === "SELECT" || element.isContentEditable
  );
}
