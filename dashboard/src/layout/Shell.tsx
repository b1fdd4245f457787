import { useEffect, useRef, useState } from "preact/hooks";

import type { Session } from "../api/types.ts";
import { useRoute } from "../state/place.ts";
import { IconButton } from "../ui/basics.tsx";
import { Logo } from "../ui/icons.tsx";
import { Toasts } from "../ui/Toasts.tsx";
import { Banner } from "./Banner.tsx";
import { Help } from "./Help.tsx";
import { useShortcuts } from "./keyboard.ts";
import { LiveIndicator } from "./LiveIndicator.tsx";
import { Menu } from "./Menu.tsx";
import { PAGES_LIST } from "./pages.ts";

/** The frame of every page: the menu, the banner, and the page itself. */
export function Shell({ session }: { session: Session }) {
  const route = useRoute();
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const main = useRef<HTMLElement>(null);
  const page = PAGES_LIST.find((page) => page.name === route.page);
  const Content = page?.component;
  useShortcuts(() => setHelp(true));

  const place = [route.page, ...route.path].join("/");
  const first = useRef(true);
  useEffect(() => {
    document.title = `${page?.title ?? "Tidegate"} · Tidegate`;
    setMenu(false);
    // A reader of the screen hears the new page; the first one is read anyway.
    if (!first.current) main.current?.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
    first.current = false;
    scrollTo(0, 0);
  }, [place]);

  return (
    <div class={`shell${menu ? " shell-menu" : ""}`}>
      {/* A button: the fragment of the URL is the place in the dashboard, so a link cannot jump. */}
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <IconButton icon="menu" label="Menu" pressed={menu} onClick={() => setMenu(!menu)} />
        <a class="brand" href="#/overview" aria-label="Tidegate, overview">
          <Logo />
          <span>Tidegate</span>
        </a>
        <LiveIndicator />
      </header>
      <Menu session={session} onHelp={() => setHelp(true)} />
      <main id="content" ref={main} tabIndex={-1}>
        <Banner />
        {Content && <Content key={route.page} />}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
      <Toasts />
    </div>
  );
}
