import { formatRoute, type PageName, parseRoute, type Route } from "./route.ts";
import { createStore, useStore } from "./store.ts";

const place = createStore<Route>(parseRoute(location.hash));

window.addEventListener("hashchange", () => place.set(parseRoute(location.hash)));

export function useRoute(): Route {
  return useStore(place, (route) => route);
}

export function currentRoute(): Route {
  return place.get();
}

/** Goes to another page. */
export function go(
  page: PageName,
  path: string[] = [],
  query: Record<string, string | undefined> = {},
): void {
  location.hash = formatRoute(page, path, query);
}

/** Changes filters of this page. Typing into a search field must not fill the history, so the entry is replaced. */
export function filter(changes: Record<string, string | undefined>): void {
  const { page, path, query } = place.get();
  const hash = formatRoute(page, path, { ...query, ...changes });
  history.replaceState(null, "", hash);
  place.set(parseRoute(hash));
}

/** Opens or closes something on this page as a step that "back" undoes. */
export function step(changes: Record<string, string | undefined>): void {
  const { page, path, query } = place.get();
  location.hash = formatRoute(page, path, { ...query, ...changes });
}
