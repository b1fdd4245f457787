import { expect, it } from "vitest";

import type { RuleActivity } from "../../api/types.ts";
import { chosenRules } from "./rule-list.ts";

function rule(domain: string, name: string, allowed: number, denied: number): RuleActivity {
  const spark = { step_s: 60, allowed: [], denied: [], shadow_denied: [] };
  const limits = [{ name: "steady", text: "100/minute token_bucket" }];
  return {
    domain,
    rule: name,
    path: name,
    limits,
    state: "enforced",
    allowed,
    denied,
    shadow_denied: 0,
    spark,
  };
}

const rules = [rule("b", "users", 5, 0), rule("a", "orders", 1, 9), rule("a", "files", 7, 0)];
const names = (filter: Partial<Parameters<typeof chosenRules>[1]>) =>
  chosenRules([...rules], { text: "", domain: "", sort: "denied", ...filter }).map((rule) => rule.rule);

it("puts the rules that deny first, and finds them by name, domain and limit", () => {
  expect(names({})).toEqual(["orders", "files", "users"]);
  expect(names({ sort: "allowed" })).toEqual(["files", "users", "orders"]);
  expect(names({ sort: "name" })).toEqual(["files", "orders", "users"]);
  expect(names({ text: "ORD" })).toEqual(["orders"]);
  expect(names({ text: "token_bucket", domain: "b" })).toEqual(["users"]);
});
