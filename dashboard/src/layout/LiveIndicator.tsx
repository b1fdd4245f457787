import type { LiveState } from "../api/live.ts";
import { togglePause, useLive } from "../state/live.ts";
import { Icon } from "../ui/icons.tsx";

const TEXTS: Record<LiveState, string> = {
  connecting: "Connecting",
  live: "Live",
  paused: "Paused",
  disconnected: "Disconnected",
};

/** Whether what is shown is now. Pressing it pauses, so that numbers can be read. */
export function LiveIndicator() {
  const state = useLive((view) => view.state);
  return (
    <button
      type="button"
      class={`live live-${state}`}
      onClick={togglePause}
      title={state === "paused" ? "Follow the node again" : "Pause"}
    >
      <span class="live-dot" aria-hidden="true" />
      <span role="status">{TEXTS[state]}</span>
      <Icon name={state === "paused" ? "play" : "pause"} size={12} />
    </button>
  );
}
