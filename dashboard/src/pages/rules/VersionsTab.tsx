import { useState } from "preact/hooks";

import { get, getText, post, segment } from "../../api/client.ts";
import type { Page, RuleVersion } from "../../api/types.ts";
import { step, useRoute } from "../../state/place.ts";
import { useResource } from "../../state/resource.ts";
import { Badge, Button, Panel, Time } from "../../ui/basics.tsx";
import { Confirm } from "../../ui/Confirm.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { toast } from "../../ui/Toasts.tsx";
import { DiffView } from "./DiffView.tsx";

/** The versions of a domain's rules, what each changed, and the way back. */
export function VersionsTab({ domain, current }: { domain: string; current: number | null }) {
  const { query } = useRoute();
  const path = `rules/${segment(domain)}`;
  const load = async (signal: AbortSignal) =>
    (await get<Page<RuleVersion>>(`${path}/versions`, {}, signal)).items;
  const versions = useResource(`versions ${domain}`, load, { onChange: true });
  const [restoring, setRestoring] = useState<number | null>(null);
  const chosen = Number(query.version ?? current ?? 0);
  return (
    <Shown resource={versions}>
      {(list) =>
        list.length === 0 ? (
          <Empty icon="rules" title="No version is stored yet" />
        ) : (
          <div class="grid-versions">
            <Panel title="Versions">
              <ul class="versions">
                {list.map((version) => (
                  <li key={version.version} class={version.version === chosen ? "chosen" : undefined}>
                    <button
                      type="button"
                      class="version"
                      aria-pressed={version.version === chosen}
                      onClick={() => step({ version: String(version.version) })}
                    >
                      <b>{version.version}</b>{" "}
                      {version.version === current && <Badge tone="allowed">in force</Badge>}
                      {version.deleted && <Badge tone="off">deleted</Badge>}
                      <span class="muted small">
                        <KeyText text={version.author} most={32} /> · <Time at={version.created_at} />
                      </span>
                      <span>
                        {version.rolled_back_to !== undefined && `Restores ${version.rolled_back_to}. `}
                        <KeyText text={version.comment} most={120} />
                      </span>
                    </button>
                    {version.version !== current && !version.deleted && (
                      <Button small needs="operator" onClick={() => setRestoring(version.version)}>
                        Roll back to it
                      </Button>
                    )}
                  </li>
                ))}
              </ul>
            </Panel>
            <Panel title={`What version ${chosen} changed`}>
              <VersionDiff path={path} version={chosen} />
            </Panel>
            {restoring !== null && (
              <Confirm
                title={`Roll back ${domain} to version ${restoring}?`}
                wide
                action="Roll back"
                onClose={() => setRestoring(null)}
                onConfirm={async () => {
                  const { version } = await post<{ version: number }>(`${path}/rollback`, {
                    version: restoring,
                  });
                  toast(`Version ${version} restores version ${restoring}`);
                  versions.reload();
                }}
              >
                <p>
                  The text of version {restoring} becomes a new version, in force on every node. From now to
                  then:
                </p>
                <VersionDiff path={path} version={restoring} from={current ?? undefined} />
              </Confirm>
            )}
          </div>
        )
      }
    </Shown>
  );
}

function VersionDiff({ path, version, from }: { path: string; version: number; from?: number }) {
  const load = async (signal: AbortSignal) =>
    (await getText(`${path}/diff`, { to: version, from }, signal)).body;
  const diff = useResource(version > 0 ? `diff ${path} ${from} ${version}` : null, load);
  return <Shown resource={diff}>{(text) => <DiffView diff={text} />}</Shown>;
}
