/**
 * The place in the dashboard, kept in the fragment of the URL: `#/rules/api/per%20user?tab=edit`. A link shows what its
 * sender saw, and a reload keeps the place.
 */

export const PAGES = [
  "overview",
  "rules",
  "keys",
  "tenants",
  "try",
  "events",
  "audit",
  "tokens",
  "nodes",
  "settings",
] as const;

export type PageName = (typeof PAGES)[number];

export interface Route {
  page: PageName;
  /** What follows the page in the path, decoded. */
  path: string[];
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const segments = (mark < 0 ? text : text.slice(0, mark)).split("/").map(decoded);
  const first = segments[0] ?? "";
  const page = PAGES.find((name) => name === first) ?? "overview";
  const query: Record<string, string> = {};
  if (mark >= 0) {
    for (const [name, value] of new URLSearchParams(text.slice(mark + 1))) query[name] = value;
  }
  return { page, path: segments.slice(1).filter((segment) => segment !== ""), query };
}

export function formatRoute(
  page: PageName,
  path: string[] = [],
  query: Record<string, string | undefined> = {},
): string {
  const segments = [page, ...path].map(encodeURIComponent).join("/");
  const kept = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const text = new URLSearchParams(kept).toString();
  return `#/${segments}${text ? `?${text}` : ""}`;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
