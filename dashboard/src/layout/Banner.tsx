import { useEffect } from "preact/hooks";

import { forgetRecovery, useLive } from "../state/live.ts";
import { formatRoute } from "../state/route.ts";
import { IconButton } from "../ui/basics.tsx";
import { Icon } from "../ui/icons.tsx";
import { sentence } from "../ui/states.tsx";

const RECOVERY_SHOWN_MS = 30_000;

const TITLES: Record<number, string> = { 1: "Degraded", 2: "Emergency", 3: "Enforcement is off" };

/** Says that the node is degraded and why, and for a while after that it is not any more. */
export function Banner() {
  const degradation = useLive((view) => view.degradation);
  const recoveredAt = useLive((view) => view.recoveredAt);
  const state = useLive((view) => view.state);
  useEffect(() => {
    if (recoveredAt === null) return;
    const timer = setTimeout(forgetRecovery, RECOVERY_SHOWN_MS);
    return () => clearTimeout(timer);
  }, [recoveredAt]);

  const level = degradation?.level ?? 0;
  return (
    <div aria-live="polite">
      {state === "disconnected" && (
        <div class="banner banner-plain">
          <Icon name="warning" />
          <p>
            The connection to the node is lost. What you see is the last known state; it is being retried.
          </p>
        </div>
      )}
      {degradation && level > 0 && (
        <div class={`banner banner-${level >= 2 ? "emergency" : "degraded"}`} data-banner="degraded">
          <Icon name="warning" />
          <p>
            <b>{TITLES[level] ?? sentence(degradation.name)}.</b>{" "}
            {degradation.reasons.map(sentence).join(". ")}
          </p>
          <a href={formatRoute("nodes")}>Nodes and stores</a>
        </div>
      )}
      {level === 0 && recoveredAt !== null && (
        <div class="banner banner-recovered" data-banner="recovered">
          <Icon name="check" />
          <p>
            <b>Back to normal.</b> The degradation has ended.
          </p>
          <IconButton icon="close" label="Close this notice" onClick={forgetRecovery} />
        </div>
      )}
    </div>
  );
}
