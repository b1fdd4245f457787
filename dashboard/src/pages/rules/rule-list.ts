import type { RuleActivity } from "../../api/types.ts";

export const SORTS = [
  ["denied", "Denied"],
  ["allowed", "Allowed"],
  ["name", "Name"],
] as const;

export type Sort = (typeof SORTS)[number][0];

export interface RuleFilter {
  text: string;
  domain: string;
  sort: Sort;
}

/** Returns the rules that match, in order. */
export function chosenRules(rules: RuleActivity[], { text, domain, sort }: RuleFilter): RuleActivity[] {
  const wanted = text.trim().toLowerCase();
  const found = rules.filter(
    (rule) =>
      (domain === "" || rule.domain === domain) &&
      `${rule.domain} ${rule.rule} ${rule.path} ${rule.limits.map((limit) => limit.text).join(" ")}`
        .toLowerCase()
        .includes(wanted),
  );
  const byName = (a: RuleActivity, b: RuleActivity) =>
    a.domain.localeCompare(b.domain) || a.rule.localeCompare(b.rule);
  const denied = (rule: RuleActivity) => rule.denied + rule.shadow_denied;
  if (sort === "name") return found.sort(byName);
  if (sort === "allowed") return found.sort((a, b) => b.allowed - a.allowed || byName(a, b));
  return found.sort((a, b) => denied(b) - denied(a) || b.allowed - a.allowed || byName(a, b));
}
