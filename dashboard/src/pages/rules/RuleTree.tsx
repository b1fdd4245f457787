import { useState } from "preact/hooks";

import { useTree } from "../../api/reads.ts";
import type { LimitText, TreeRule } from "../../api/types.ts";
import { formatRoute } from "../../state/route.ts";
import { plain } from "../../text/visible.ts";
import { Badge, Panel } from "../../ui/basics.tsx";
import { Icon } from "../../ui/icons.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, Shown } from "../../ui/states.tsx";
import { RuleStateBadge } from "./RuleList.tsx";

/** Domains with more rules than this are folded at first. */
const UNFOLDED = 60;

/** The rules as they match: each entry of a descriptor leads one level down. */
export function RuleTree({ domain, marked }: { domain?: string; marked?: string }) {
  const tree = useTree();
  return (
    <Shown resource={tree} rows={8}>
      {(domains) => {
        const shown = domains.filter((item) => domain === undefined || item.name === domain);
        if (shown.length === 0) return <Empty icon="rules" title="There are no rules" />;
        return (
          <>
            {shown.map((item) => (
              <Panel
                key={item.name}
                title={<a href={formatRoute("rules", [item.name])}>{item.name}</a>}
                tools={
                  <span class="muted">
                    from {item.origin}
                    {item.version !== null && `, version ${item.version}`}
                  </span>
                }
              >
                <Level
                  domain={item.name}
                  rules={item.rules}
                  folded={countOf(item.rules) > UNFOLDED}
                  marked={marked}
                />
              </Panel>
            ))}
          </>
        );
      }}
    </Shown>
  );
}

function countOf(rules: TreeRule[]): number {
  return rules.reduce((sum, rule) => sum + 1 + countOf(rule.children), 0);
}

interface LevelProps {
  domain: string;
  rules: TreeRule[];
  folded: boolean;
  marked?: string;
}

function Level(props: LevelProps) {
  return (
    <ul class="tree">
      {props.rules.map((rule) => (
        <Branch key={rule.rule} {...props} rule={rule} />
      ))}
    </ul>
  );
}

/** A rule and those below it, which can be folded. */
function Branch(props: LevelProps & { rule: TreeRule }) {
  const { rule, folded } = props;
  const [open, setOpen] = useState(!folded);
  const hasChildren = rule.children.length > 0;
  return (
    <li class={rule.rule === props.marked ? "tree-marked" : undefined}>
      {hasChildren ? (
        <button
          type="button"
          class="fold"
          aria-expanded={open}
          aria-label={`Rules below ${plain(rule.rule).slice(0, 60)}`}
          onClick={() => setOpen(!open)}
        >
          <Icon name="chevron" size={14} />
        </button>
      ) : (
        <span class="fold" />
      )}
      <Node domain={props.domain} rule={rule} />
      {hasChildren && open && <Level {...props} rules={rule.children} />}
    </li>
  );
}

function Node({ domain, rule }: { domain: string; rule: TreeRule }) {
  return (
    <span class="tree-node">
      <a href={formatRoute("rules", [domain, rule.rule])}>
        <code>
          <KeyText text={rule.value === null ? rule.key : `${rule.key} = ${rule.value}`} most={64} />
        </code>
      </a>
      {rule.value === null && <span class="muted small">any value</span>}
      {rule.limits.map((limit) => (
        <Badge key={textOf(limit)} tone="plain">
          {textOf(limit)}
        </Badge>
      ))}
      {rule.state !== "enforced" && <RuleStateBadge state={rule.state} />}
    </span>
  );
}

function textOf(limit: LimitText | string): string {
  return typeof limit === "string" ? limit : limit.text;
}
