import type { DomainListing, Entry, TreeDomain, TreeRule } from "../api/types.ts";

/** Returns the keys of the entries that lead to a rule, in order; null if there is no such rule. */
export function pathKeys(domains: TreeDomain[], domain: string, rule: string): string[] | null {
  const down = (rules: TreeRule[], above: string[]): string[] | null => {
    for (const node of rules) {
      const keys = [...above, node.key];
      const found = node.rule === rule ? keys : down(node.children, keys);
      if (found) return found;
    }
    return null;
  };
  return down(domains.find((item) => item.name === domain)?.rules ?? [], []);
}

/**
 * Returns the entries of a key's text, such as `api_key=acme/endpoint=POST /orders`, whose keys are known: values may
 * contain slashes and equals signs. Null if the text does not have these keys.
 */
export function entriesOf(text: string, keys: string[]): Entry[] | null {
  const entries: Entry[] = [];
  let rest = text;
  for (const [index, key] of keys.entries()) {
    if (!rest.startsWith(`${key}=`)) return null;
    rest = rest.slice(key.length + 1);
    const next = keys[index + 1];
    const end = next === undefined ? rest.length : rest.indexOf(`/${next}=`);
    if (end < 0) return null;
    entries.push({ key, value: rest.slice(0, end) });
    rest = rest.slice(end + 1);
  }
  return entries.length > 0 ? entries : null;
}

/** What a key stands for. */
export interface KeyIdentity {
  domain: string;
  rule: string;
  /** Null if the rule hides its keys, or is gone. */
  entries: Entry[] | null;
  /** Null if the domain names no tenants. */
  tenant: string | null;
}

/** Returns what a key stands for, by the rules in force. */
export function identify(
  key: { domain: string; rule: string; key: string | null },
  tree: TreeDomain[],
  domains: DomainListing[],
): KeyIdentity {
  const { domain, rule } = key;
  const keys = pathKeys(tree, domain, rule);
  const entries = key.key === null || keys === null ? null : entriesOf(key.key, keys);
  const tenantKey = domains.find((item) => item.domain === domain)?.tenant ?? null;
  const tenant = entries?.find((entry) => entry.key === tenantKey)?.value ?? null;
  return { domain, rule, entries, tenant };
}
