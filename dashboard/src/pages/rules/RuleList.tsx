import { useState } from "preact/hooks";

import { useActivity, useSwitches } from "../../api/reads.ts";
import type { RuleActivity, RuleState } from "../../api/types.ts";
import { filter, useRoute } from "../../state/place.ts";
import { formatRoute } from "../../state/route.ts";
import { count, exact } from "../../text/format.ts";
import { Badge, Button, Choice, PageHead, Panel, SearchField, Tabs, type Tone } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Pager, pageNumber, pageOf } from "../../ui/Pager.tsx";
import { Sparkline } from "../../ui/Sparkline.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/Table.tsx";
import { NewDomain } from "./NewDomain.tsx";
import { RuleTree } from "./RuleTree.tsx";
import { chosenRules, SORTS, type Sort } from "./rule-list.ts";
import { SwitchControl } from "./SwitchControl.tsx";

/** Every rule with what it did in the last hour, or the tree as it matches. */
export function RuleList() {
  const { query } = useRoute();
  const activity = useActivity();
  const switches = useSwitches();
  const [creating, setCreating] = useState(false);
  const view = query.view === "tree" ? "tree" : "activity";
  const sort: Sort = SORTS.some(([name]) => name === query.sort) ? (query.sort as Sort) : "denied";
  return (
    <>
      <PageHead title="Rules" note="What each rule did in the last hour.">
        <SwitchControl
          rule="*"
          mode={switches.data?.all ?? "enforce"}
          from={switches.data?.from["*"]}
          onDone={switches.reload}
        />
        <Button needs="operator" icon="plus" onClick={() => setCreating(true)}>
          New domain
        </Button>
      </PageHead>
      <div class="bar">
        <Tabs
          label="View"
          current={view}
          tabs={[
            { name: "activity", text: "Activity", href: formatRoute("rules") },
            { name: "tree", text: "Tree", href: formatRoute("rules", [], { view: "tree" }) },
          ]}
        />
        {view === "activity" && (
          <div class="tools">
            <Choice
              label="Sort by"
              value={sort}
              options={SORTS}
              onChoose={(value) => filter({ sort: value })}
            />
            <SearchField
              label="Search rules"
              value={query.q ?? ""}
              onInput={(q) => filter({ q, page: "" })}
            />
          </div>
        )}
      </div>
      {view === "tree" ? (
        <RuleTree />
      ) : (
        <Shown resource={activity} rows={10}>
          {(data) => {
            const found = chosenRules([...data.rules], {
              text: query.q ?? "",
              domain: query.domain ?? "",
              sort,
            });
            const page = pageNumber(query.page, found.length);
            if (found.length === 0) return <NoRules any={data.rules.length > 0} />;
            return (
              <Panel>
                <Table
                  columns={COLUMNS}
                  rows={pageOf(found, page)}
                  keyOf={(rule) => `${rule.domain}\0${rule.rule}`}
                  links
                />
                <Pager
                  page={page}
                  total={found.length}
                  onPage={(number) => filter({ page: String(number) })}
                />
                {data.truncated && (
                  <p class="pad muted">There are more rules than the node lists; search in the tree.</p>
                )}
              </Panel>
            );
          }}
        </Shown>
      )}
      {creating && <NewDomain onClose={() => setCreating(false)} />}
    </>
  );
}

function NoRules({ any }: { any: boolean }) {
  return any ? (
    <Empty icon="search" title="No rule matches" />
  ) : (
    <Empty icon="rules" title="There are no rules">
      Put a rule file into the folder of the rules, or make a domain here. Until then every request is
      allowed.
    </Empty>
  );
}

const STATES: Record<RuleState, [Tone, string]> = {
  enforced: ["allowed", "enforced"],
  shadow: ["shadow", "shadow"],
  off: ["off", "off"],
};

export function RuleStateBadge({ state }: { state: RuleState }) {
  const [tone, text] = STATES[state] ?? ["plain", state];
  return <Badge tone={tone}>{text}</Badge>;
}

const COLUMNS: Column<RuleActivity>[] = [
  {
    title: "Rule",
    kind: "main",
    cell: (rule) => (
      <>
        <a class="row-link-text" href={formatRoute("rules", [rule.domain, rule.rule])}>
          <KeyText text={rule.rule} most={56} />
        </a>{" "}
        <a class="muted" href={formatRoute("rules", [rule.domain])}>
          {rule.domain}
        </a>
      </>
    ),
  },
  {
    title: "Limits",
    cell: (rule) => (
      <div class="small">
        {rule.limits.length === 0 && <span class="muted">none of its own</span>}
        {rule.limits.map((limit) => (
          <div key={limit.name}>
            {limit.text} {limit.shadow && <span class="muted">(shadow)</span>}
          </div>
        ))}
      </div>
    ),
  },
  { title: "State", cell: (rule) => <RuleStateBadge state={rule.state} /> },
  { title: "Last hour", cell: (rule) => <Sparkline spark={rule.spark} /> },
  {
    title: "Allowed",
    kind: "number",
    hint: (rule) => exact(rule.allowed),
    cell: (rule) => count(rule.allowed),
  },
  {
    title: "Denied",
    kind: "number",
    hint: (rule) => exact(rule.denied),
    tone: (rule) => (rule.denied > 0 ? "ink-denied" : undefined),
    cell: (rule) => count(rule.denied),
  },
  {
    title: "In shadow",
    kind: "number",
    hint: (rule) => exact(rule.shadow_denied),
    tone: (rule) => (rule.shadow_denied > 0 ? "ink-shadow" : undefined),
    cell: (rule) => count(rule.shadow_denied),
  },
];
