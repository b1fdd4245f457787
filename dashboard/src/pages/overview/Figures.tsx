import type { Overview } from "../../api/types.ts";
import { useLive } from "../../state/live.ts";
import { formatRoute } from "../../state/route.ts";
import { bytes, count, micros, percent, perSecond } from "../../text/format.ts";
import { Meter } from "../../ui/basics.tsx";

/** The mean of the last ticks, so that the figures can be read while they change. */
const TICKS_MEANT = 5;

/** The figures that answer "is it healthy" at a glance. */
export function Figures({ overview }: { overview: Overview | undefined }) {
  const ticks = useLive((view) => view.ticks).slice(-TICKS_MEANT);
  const mean = (of: (tick: (typeof ticks)[number]) => number) =>
    ticks.length === 0 ? null : ticks.reduce((sum, tick) => sum + of(tick), 0) / ticks.length;
  const allowed = mean((tick) => tick.allowed);
  const denied = mean((tick) => tick.denied);
  const shadow = mean((tick) => tick.shadow_denied);
  const errors = mean((tick) => tick.error);
  const all = (allowed ?? 0) + (denied ?? 0);
  const p99 = ticks.at(-1)?.p99_us ?? null;
  return (
    <dl class="figures">
      <Figure
        name="Decisions"
        value={allowed === null ? "–" : perSecond(all)}
        note={`${perSecond(shadow)} would be denied in shadow`}
      />
      <Figure
        name="Denied"
        value={denied === null ? "–" : perSecond(denied)}
        note={`${percent(denied ?? 0, all)} of decisions`}
        tone={denied ? "denied" : undefined}
        href={formatRoute("keys", [], { by: "denied" })}
      />
      <Figure
        name="Store errors"
        value={errors === null ? "–" : perSecond(errors)}
        note={errors ? "decided by the rules' fallback" : "the store answers"}
        tone={errors ? "error" : undefined}
        href={formatRoute("nodes")}
      />
      <Figure name="p99" value={micros(p99)} note={`p50 ${micros(ticks.at(-1)?.p50_us ?? null)}`} />
      <div class="figure">
        <dt>Keys</dt>
        <dd>{count(overview?.keys.used)}</dd>
        <dd class="figure-note">
          <Meter used={overview?.keys.used ?? 0} of={overview?.keys.max ?? 0} label="Keys in use" />
          of {count(overview?.keys.max)}
        </dd>
      </div>
      <div class="figure">
        <dt>Memory</dt>
        <dd>{bytes(overview?.memory.used_bytes)}</dd>
        <dd class="figure-note">
          <Meter
            used={overview?.memory.used_bytes ?? 0}
            of={overview?.memory.max_bytes ?? 0}
            label="Memory in use"
          />
          of {bytes(overview?.memory.max_bytes)}
        </dd>
      </div>
    </dl>
  );
}

function Figure(props: { name: string; value: string; note: string; tone?: string; href?: string }) {
  return (
    <div class="figure">
      <dt>{props.href ? <a href={props.href}>{props.name}</a> : props.name}</dt>
      <dd class={props.tone ? `ink-${props.tone}` : undefined}>{props.value}</dd>
      <dd class="figure-note">{props.note}</dd>
    </div>
  );
}
