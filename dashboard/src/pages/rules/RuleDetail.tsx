import { useActivity, useDenials, useDomains, useHistory, useSwitches, useTop } from "../../api/reads.ts";
import type { RuleActivity, RuleListing, Span } from "../../api/types.ts";
import { filter, go, useRoute } from "../../state/place.ts";
import { formatRoute } from "../../state/route.ts";
import { count, percent, perSecond } from "../../text/format.ts";
import { Badge, Choice, PageHead, Panel } from "../../ui/basics.tsx";
import { Chart } from "../../ui/Chart.tsx";
import { ofHistory } from "../../ui/chart-data.ts";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { DenialList } from "../keys/DenialTable.tsx";
import { TopTable } from "../keys/TopTable.tsx";
import { RuleStateBadge } from "./RuleList.tsx";
import { RuleTree } from "./RuleTree.tsx";
import { SwitchControl } from "./SwitchControl.tsx";

const SPANS = [
  ["1h", "1 hour"],
  ["1d", "1 day"],
] as const;

/** One rule: what it does, whom it limits, and its switch. */
export function RuleDetail({ domain, rule }: { domain: string; rule: string }) {
  const { query } = useRoute();
  const span: Span = query.span === "1d" ? "1d" : "1h";
  const activity = useActivity();
  const domains = useDomains();
  const switches = useSwitches();
  const history = useHistory("decisions", span, domain, rule);
  const top = useTop({ by: "denied", window: "60m", domain, rule, limit: 10 });
  const denials = useDenials({ domain, rule, limit: 20 });
  const found = activity.data?.rules.find((item) => item.domain === domain && item.rule === rule);
  const listed = domains.data
    ?.find((item) => item.domain === domain)
    ?.rules.find((item) => item.rule === rule);
  const unknown = activity.data && domains.data && !found && !listed;
  return (
    <>
      <nav class="crumbs" aria-label="Place">
        <a href={formatRoute("rules")}>Rules</a>
        <a href={formatRoute("rules", [domain])}>
          <KeyText text={domain} most={40} />
        </a>
      </nav>
      <PageHead title={<KeyText text={rule} copy />}>
        <Choice label="Time" value={span} options={SPANS} onChoose={(value) => filter({ span: value })} />
        <SwitchControl
          rule={rule}
          mode={switches.data?.rules[rule] ?? "enforce"}
          from={switches.data?.from[rule]}
          onDone={() => {
            switches.reload();
            activity.reload();
          }}
        />
      </PageHead>
      {unknown && (
        <Empty icon="rules" title="There is no such rule any more">
          Its history is shown as far as it is kept.
        </Empty>
      )}
      {found && <RuleFigures rule={found} />}
      <div class="panel">
        <Shown resource={history} rows={6}>
          {(data) => (
            <Chart
              title="Decisions per second"
              {...ofHistory(data)}
              marks={data.marks}
              explainMarks
              format={perSecond}
            />
          )}
        </Shown>
      </div>
      <div class="grid-two">
        <Panel
          title="Most denied keys, last hour"
          tools={<a href={formatRoute("keys", [], { domain, rule })}>All keys</a>}
        >
          <Shown resource={top}>
            {(list) =>
              list.keys.length === 0 ? (
                <Empty icon="check" title="No key was denied" />
              ) : (
                <TopTable
                  keys={list.keys}
                  by="denied"
                  onOpen={(key) => go("keys", [], { open: key.fingerprint, domain, rule })}
                />
              )
            }
          </Shown>
        </Panel>
        <Panel title="Last denials">
          <Shown resource={denials}>
            {(list) =>
              list.length === 0 ? (
                <Empty icon="check" title="Nothing was denied" />
              ) : (
                <DenialList denials={list.slice(0, 10)} />
              )
            }
          </Shown>
        </Panel>
      </div>
      {listed && <Definition listing={listed} />}
      <RuleTree domain={domain} marked={rule} />
    </>
  );
}

function RuleFigures({ rule }: { rule: RuleActivity }) {
  const all = rule.allowed + rule.denied;
  return (
    <dl class="figures">
      <div class="figure">
        <dt>State</dt>
        <dd>
          <RuleStateBadge state={rule.state} />
        </dd>
      </div>
      <div class="figure">
        <dt>Allowed, last hour</dt>
        <dd>{count(rule.allowed)}</dd>
      </div>
      <div class="figure">
        <dt>Denied, last hour</dt>
        <dd class={rule.denied > 0 ? "ink-denied" : ""}>{count(rule.denied)}</dd>
        <dd class="figure-note">{percent(rule.denied, all)} of its decisions</dd>
      </div>
      <div class="figure">
        <dt>Would be denied (shadow)</dt>
        <dd class={rule.shadow_denied > 0 ? "ink-shadow" : ""}>{count(rule.shadow_denied)}</dd>
      </div>
    </dl>
  );
}

function Definition({ listing }: { listing: RuleListing }) {
  return (
    <Panel title="Limits">
      <dl class="facts">
        {listing.limits.map((limit) => (
          <div key={limit} class="fact">
            <dt>Limit</dt>
            <dd>{limit}</dd>
          </div>
        ))}
        {listing.concurrency && (
          <div class="fact">
            <dt>Concurrency</dt>
            <dd>{listing.concurrency}</dd>
          </div>
        )}
        {listing.tiers.map(([tier, limits]) => (
          <div key={tier} class="fact">
            <dt>
              <Badge tone="accent">{tier}</Badge>
            </dt>
            <dd>{limits.length === 0 ? "unlimited" : limits.join("; ")}</dd>
          </div>
        ))}
        <div class="fact">
          <dt>If the store fails</dt>
          <dd>
            {typeof listing.on_store_error === "string"
              ? listing.on_store_error
              : JSON.stringify(listing.on_store_error)}
          </dd>
        </div>
        {listing.enforce_percent < 100 && (
          <div class="fact">
            <dt>Enforced for</dt>
            <dd>{listing.enforce_percent} % of keys</dd>
          </div>
        )}
      </dl>
    </Panel>
  );
}
