import type { Session } from "../api/types.ts";
import { useRoute } from "../state/place.ts";
import { formatRoute } from "../state/route.ts";
import { signOut } from "../state/session.ts";
import { chooseTheme, type Theme, useTheme } from "../state/theme.ts";
import { IconButton } from "../ui/basics.tsx";
import { Icon, type IconName } from "../ui/icons.tsx";
import { PAGE_GROUPS } from "./pages.ts";

const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const THEME_ICON: Record<Theme, IconName> = { system: "system", light: "sun", dark: "moon" };

export function Menu({ session, onHelp }: { session: Session; onHelp: () => void }) {
  const route = useRoute();
  const theme = useTheme();
  return (
    <aside class="side" aria-label="Menu">
      <nav class="menu" aria-label="Pages">
        {PAGE_GROUPS.map((group) => (
          <div key={group.title} class="menu-group">
            <p class="menu-title">{group.title}</p>
            {group.pages.map((page) => (
              <a
                key={page.name}
                href={formatRoute(page.name)}
                aria-current={route.page === page.name ? "page" : undefined}
                title={`${page.title} (g ${page.key})`}
              >
                <Icon name={page.name} />
                {page.title}
              </a>
            ))}
          </div>
        ))}
      </nav>
      <div class="who">
        <div class="who-name">
          <b>{session.name}</b>
          <span class="muted">{session.role}</span>
        </div>
        <IconButton
          icon={THEME_ICON[theme]}
          label={`Colours: ${theme}. Change to ${NEXT_THEME[theme]}`}
          onClick={() => chooseTheme(NEXT_THEME[theme])}
        />
        <IconButton icon="info" label="Keyboard and help" onClick={onHelp} />
        <IconButton icon="out" label="Sign out" onClick={() => void signOut()} />
      </div>
    </aside>
  );
}
