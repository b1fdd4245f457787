import type { FunctionComponent } from "preact";

import { Audit } from "../pages/audit/Audit.tsx";
import { Events } from "../pages/events/Events.tsx";
import { Keys } from "../pages/keys/Keys.tsx";
import { Nodes } from "../pages/nodes/Nodes.tsx";
import { Overview } from "../pages/overview/Overview.tsx";
import { Rules } from "../pages/rules/Rules.tsx";
import { Settings } from "../pages/settings/Settings.tsx";
import { Tenants } from "../pages/tenants/Tenants.tsx";
import { Tokens } from "../pages/tokens/Tokens.tsx";
import { TryIt } from "../pages/try/TryIt.tsx";
import type { PageName } from "../state/route.ts";

export interface PageInfo {
  name: PageName;
  title: string;
  /** The key that goes to the page, after `g`. */
  key: string;
  component: FunctionComponent;
}

/** The pages in the order of the menu. */
export const PAGE_GROUPS: { title: string; pages: PageInfo[] }[] = [
  {
    title: "Watch",
    pages: [
      { name: "overview", title: "Overview", key: "o", component: Overview },
      { name: "keys", title: "Keys", key: "k", component: Keys },
      { name: "events", title: "Events", key: "e", component: Events },
    ],
  },
  {
    title: "Control",
    pages: [
      { name: "rules", title: "Rules", key: "r", component: Rules },
      { name: "tenants", title: "Tenants", key: "t", component: Tenants },
      { name: "try", title: "Try it", key: "y", component: TryIt },
    ],
  },
  {
    title: "Service",
    pages: [
      { name: "nodes", title: "Nodes", key: "n", component: Nodes },
      { name: "settings", title: "Settings", key: "s", component: Settings },
      { name: "tokens", title: "Tokens", key: "p", component: Tokens },
      { name: "audit", title: "Audit", key: "a", component: Audit },
    ],
  },
];

export const PAGES_LIST = PAGE_GROUPS.flatMap((group) => group.pages);
