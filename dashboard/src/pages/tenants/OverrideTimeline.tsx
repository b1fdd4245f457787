import type { Override } from "../../api/types.ts";
import { type Bar, type Phase, timeline } from "../../state/timeline.ts";
import { dateTime } from "../../text/format.ts";
import { overrideText } from "../../text/override.ts";
import { Badge, Button, type Tone } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";

const TONES: Record<Phase, Tone> = { past: "off", current: "allowed", future: "accent" };

/** The share of the line that the label of an end takes; now is not written over it. */
const LABEL_SHARE = 0.15;

/** Overrides on a line of time: past, current and future, with now marked. */
export function OverrideTimeline({
  overrides,
  onRemove,
}: {
  overrides: Override[];
  onRemove: (index: number) => void;
}) {
  const line = timeline(overrides, Date.now());
  return (
    <div class="timeline">
      <div class="timeline-axis muted small" aria-hidden="true">
        <span>{line.now > LABEL_SHARE && dateTime(line.from).split(",")[0]}</span>
        <span class="timeline-now-label" style={{ left: `${line.now * 100}%` }}>
          now
        </span>
        <span>{line.now < 1 - LABEL_SHARE && dateTime(line.to).split(",")[0]}</span>
      </div>
      <ol>
        {line.bars.map((bar, index) => (
          <li key={index}>
            <div class="timeline-text">
              <Badge tone={TONES[bar.phase]}>{bar.phase}</Badge> <b>{overrideText(bar.override)}</b>{" "}
              <span class="muted">
                <Scope override={bar.override} />
              </span>
              <span class="timeline-when muted small">{when(bar.override)}</span>
              <Button small kind="quiet" needs="operator" onClick={() => onRemove(index)}>
                Remove
              </Button>
            </div>
            <Track bar={bar} now={line.now} />
          </li>
        ))}
      </ol>
    </div>
  );
}

function Track({ bar, now }: { bar: Bar; now: number }) {
  const open = `${bar.openStart ? " bar-open-start" : ""}${bar.openEnd ? " bar-open-end" : ""}`;
  return (
    <div class="timeline-track" aria-hidden="true">
      <div
        class={`timeline-bar bar-${bar.phase}${open}`}
        style={{ left: `${bar.left * 100}%`, width: `${bar.width * 100}%` }}
      />
      <div class="timeline-now" style={{ left: `${now * 100}%` }} />
    </div>
  );
}

function Scope({ override }: { override: Override }) {
  return (
    <>
      {override.descriptor === "default" ? "own rule" : <KeyText text={override.descriptor} most={48} />}
      {override.limit && `, limit ${override.limit}`}
      {override.domain && ` in ${override.domain}`}
    </>
  );
}

function when(override: Override): string {
  const from = override.effective_at === null ? "" : `from ${dateTime(override.effective_at)} `;
  const to = override.expires_at === null ? "for good" : `until ${dateTime(override.expires_at)}`;
  return `${from}${to}`;
}
