import { createStore, useStore } from "./store.ts";

export type Theme = "system" | "light" | "dark";

const KEY = "tidegate.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

const theme = createStore<Theme>(stored());
/** Changes whenever the colours do, so that canvases are drawn again. */
const colours = createStore<"light" | "dark">(inForce());

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

function inForce(): "light" | "dark" {
  const chosen = theme?.get() ?? stored();
  if (chosen !== "system") return chosen;
  return dark.matches ? "dark" : "light";
}

function apply(): void {
  document.documentElement.dataset.theme = inForce();
  colours.set(inForce());
}

/** Applies the stored choice, and follows the system. */
export function startTheme(): void {
  apply();
  dark.addEventListener("change", apply);
}

export function chooseTheme(next: Theme): void {
  theme.set(next);
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  apply();
}

export function useTheme(): Theme {
  return useStore(theme, (value) => value);
}

export function useColours(): "light" | "dark" {
  return useStore(colours, (value) => value);
}
