import type { Denial } from "../../api/types.ts";
import { clock, count } from "../../text/format.ts";
import { minutesOf } from "./denial-history.ts";

const HEIGHT = 44;

/** The denials of a key by minute, from those that the node remembers. */
export function DenialHistory({ denials }: { denials: Denial[] }) {
  const minutes = minutesOf(denials, Date.now());
  const highest = Math.max(1, ...minutes.map((minute) => minute.count));
  const total = minutes.reduce((sum, minute) => sum + minute.count, 0);
  return (
    <figure
      class="denial-history"
      aria-label={`${count(total)} remembered denials in the last hour, at most ${count(highest)} in one minute`}
    >
      <svg viewBox={`0 0 ${minutes.length * 6} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {minutes.map((minute, index) => {
          const height = (minute.count / highest) * (HEIGHT - 2);
          return <rect key={minute.at} x={index * 6 + 1} y={HEIGHT - height} width={4} height={height} />;
        })}
      </svg>
      <figcaption class="muted small">
        <span>{clock(minutes[0]?.at)}</span>
        <span>at most {count(highest)} a minute</span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}
