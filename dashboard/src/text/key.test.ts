import { expect, it } from "vitest";

import type { TreeRule } from "../api/types.ts";
import { entriesOf, identify, pathKeys } from "./key.ts";

function node(rule: string, key: string, children: TreeRule[] = []): TreeRule {
  return { rule, key, value: null, limits: [], state: "enforced", children };
}

const tree = [
  {
    name: "api",
    origin: "file",
    version: null,
    rules: [node("per key", "api_key", [node("orders", "endpoint")])],
  },
];

it("finds the keys on the way to a rule", () => {
  expect(pathKeys(tree, "api", "orders")).toEqual(["api_key", "endpoint"]);
  expect(pathKeys(tree, "api", "per key")).toEqual(["api_key"]);
  expect(pathKeys(tree, "api", "gone")).toBeNull();
  expect(pathKeys(tree, "other", "orders")).toBeNull();
});

it("takes a key's text apart, whatever its values contain", () => {
  expect(entriesOf("api_key=a/b=c/endpoint=POST /orders", ["api_key", "endpoint"])).toEqual([
    { key: "api_key", value: "a/b=c" },
    { key: "endpoint", value: "POST /orders" },
  ]);
  expect(entriesOf("api_key=", ["api_key"])).toEqual([{ key: "api_key", value: "" }]);
  expect(entriesOf("user=ann", ["api_key"])).toBeNull();
  expect(entriesOf("api_key=ann", ["api_key", "endpoint"])).toBeNull();
});

it("knows the tenant of a key", () => {
  const domains = [{ domain: "api", owner: "file" as const, tenant: "api_key", rules: [] }];
  const key = { domain: "api", rule: "orders", key: "api_key=acme/endpoint=x" };
  expect(identify(key, tree, domains)).toMatchObject({
    tenant: "acme",
    entries: [{ value: "acme" }, { value: "x" }],
  });
  expect(identify({ ...key, key: null }, tree, domains)).toMatchObject({ tenant: null, entries: null });
  expect(identify({ ...key, domain: "other" }, tree, domains)).toMatchObject({ tenant: null, entries: null });
});
