/** What pages read from the node, each with the key under which it is kept. */

import { type Resource, useResource } from "../state/resource.ts";
import { get } from "./client.ts";
import type {
  Activity,
  Denial,
  DomainListing,
  History,
  Metric,
  Overview,
  Span,
  SwitchList,
  TopList,
  TreeDomain,
} from "./types.ts";

export function useOverview(): Resource<Overview> {
  return useResource("overview", (signal) => get<Overview>("overview", {}, signal), {
    everyMs: 5_000,
    onChange: true,
  });
}

export function useHistory(metric: Metric, span: Span, domain?: string, rule?: string): Resource<History> {
  const query = { metric, span, domain, rule };
  const everyMs = span === "1h" ? 10_000 : 60_000;
  return useResource(JSON.stringify(["history", query]), (signal) => get<History>("history", query, signal), {
    everyMs,
  });
}

export function useActivity(): Resource<Activity> {
  const load = (signal: AbortSignal) => get<Activity>("rules/activity", { span: "1h" }, signal);
  return useResource("activity", load, { everyMs: 10_000, onChange: true });
}

export function useDomains(): Resource<DomainListing[]> {
  const load = async (signal: AbortSignal) =>
    (await get<{ items: DomainListing[] }>("rules", {}, signal)).items;
  return useResource("domains", load, { onChange: true });
}

export function useTree(): Resource<TreeDomain[]> {
  const load = async (signal: AbortSignal) =>
    (await get<{ domains: TreeDomain[] }>("rules/tree", {}, signal)).domains;
  return useResource("tree", load, { onChange: true });
}

export function useSwitches(): Resource<SwitchList> {
  return useResource("switches", (signal) => get<SwitchList>("switches", {}, signal), { onChange: true });
}

export interface TopQuery {
  by: string;
  window: string;
  domain?: string;
  rule?: string;
  limit?: number;
}

export function useTop(query: TopQuery): Resource<TopList> {
  const load = (signal: AbortSignal) => get<TopList>("top", { ...query }, signal);
  return useResource(JSON.stringify(["top", query]), load, { everyMs: 3_000 });
}

export interface DenialQuery {
  domain?: string;
  rule?: string;
  fingerprint?: string;
  request_id?: string;
  limit?: number;
}

export function useDenials(query: DenialQuery): Resource<Denial[]> {
  const load = async (signal: AbortSignal) =>
    (await get<{ denials: Denial[] }>("denials", { ...query }, signal)).denials;
  return useResource(JSON.stringify(["denials", query]), load, { everyMs: 3_000 });
}
