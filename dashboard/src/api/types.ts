/** The JSON of the admin API, as the dashboard reads it. Times are RFC 3339 text unless a name ends in `_s`, `_ms` or `_us`. */

export type Role = "check" | "viewer" | "operator" | "admin";

export interface Session {
  name: string;
  role: Role;
  csrf: string;
  expires_at: string;
}

export interface FieldProblem {
  field: string;
  reason: string;
  line?: number;
  column?: number;
}

export interface Degradation {
  /** 0 normal, 1 degraded, 2 emergency, 3 disabled. */
  level: number;
  name: string;
  reasons: string[];
}

export interface Shard {
  address: string;
  state: "up" | "open" | "probing";
  latency_us: number | null;
  detail: string | null;
}

export interface NodeInfo {
  name: string;
  version: string;
  last_seen: string;
  degradation: number;
  rules_version: string;
  self: boolean;
}

export interface Overview {
  node: string;
  version: string;
  uptime_s: number;
  now: string;
  degradation: Degradation;
  rules: {
    version: string;
    domains: number;
    rules: number;
    limits: number;
    last_reload: { at: string; ok: boolean; detail: string | null } | null;
  };
  store: { kind: string; shards: Shard[] };
  catalog: { kind: string; state: string; detail: string | null; clock_skew_ms: number | null };
  keys: { used: number; max: number };
  memory: { used_bytes: number; max_bytes: number };
  nodes: NodeInfo[];
}

export type Metric = "decisions" | "latency";
export type Span = "1h" | "1d";

export interface Mark {
  at_s: number;
  kind: string;
  text: string;
}

export interface History {
  span: Span;
  step_s: number;
  from_s: number;
  series: { name: string; values: (number | null)[] }[];
  marks: Mark[];
  memory_bytes: number;
}

export interface Tick {
  at_s: number;
  allowed: number;
  denied: number;
  shadow_denied: number;
  error: number;
  p50_us: number | null;
  p99_us: number | null;
  degradation: Degradation;
  store: Shard[];
  seq: number;
}

export interface Change {
  kind: string;
  text: string;
}

export interface Entry {
  key: string;
  value: string;
}

export interface Descriptor {
  entries: Entry[];
}

export type RuleState = "enforced" | "shadow" | "off";

export interface LimitText {
  name: string;
  text: string;
  shadow?: boolean;
}

export interface Spark {
  step_s: number;
  allowed: number[];
  denied: number[];
  shadow_denied: number[];
}

export interface RuleActivity {
  domain: string;
  rule: string;
  path: string;
  limits: LimitText[];
  state: RuleState;
  allowed: number;
  denied: number;
  shadow_denied: number;
  spark: Spark;
}

export interface Activity {
  rules: RuleActivity[];
  truncated: boolean;
}

export interface TreeRule {
  rule: string;
  key: string;
  value: string | null;
  limits: (LimitText | string)[];
  state: RuleState;
  children: TreeRule[];
}

export interface TreeDomain {
  name: string;
  origin: string;
  version: number | null;
  rules: TreeRule[];
}

export interface RuleListing {
  rule: string;
  limits: string[];
  tiers: [string, string[]][];
  concurrency: string | null;
  unlimited: boolean;
  shadow_mode: boolean;
  enforce_percent: number;
  on_store_error: unknown;
}

export interface DomainListing {
  domain: string;
  owner: "file" | "catalog" | "code";
  file?: string;
  version?: number;
  tenant: string | null;
  rules: RuleListing[];
}

export interface RuleVersion {
  version: number;
  author: string;
  comment: string;
  created_at: string;
  deleted: boolean;
  rolled_back_to?: number;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface Validation {
  valid: boolean;
  problems: FieldProblem[];
  findings: string[];
}

export interface RulesDiff {
  domain: string;
  version: number | null;
  diff: string;
  added: string[];
  removed: string[];
  changed: string[];
  warnings: string[];
  dry_run: boolean;
}

export interface DryRun {
  valid: boolean;
  errors: FieldProblem[];
  rules: {
    rule: string;
    limit: string;
    now: { allowed: number; denied: number };
    then: { allowed: number; denied: number };
    error: string;
    note: string | null;
  }[];
}

export type SwitchMode = "enforce" | "shadow" | "off";

export interface SwitchList {
  all: SwitchMode;
  rules: Record<string, SwitchMode>;
  from: Record<string, string>;
}

export interface SwitchView {
  rule: string;
  mode: SwitchMode;
  from: string | null;
  note?: string;
}

export interface TopKey {
  domain: string;
  rule: string;
  /** Null where the rule hides its keys. */
  key: string | null;
  hidden: boolean;
  fingerprint: string;
  tenant: string | null;
  count: number;
  error: number;
  last: string | null;
}

export interface TopList {
  by: "denied" | "active";
  window: string;
  scope: "node" | "fleet";
  error_share: number;
  keys: TopKey[];
}

export interface Denial {
  id: string;
  at: string;
  domain: string;
  rule: string;
  limit: string;
  limit_text: string;
  key: string | null;
  fingerprint: string;
  cost: number;
  source: string;
  retry_after_ms: number | null;
  request_id: string | null;
  shadow: boolean;
  front_end: string;
}

export interface ExplainedLimit {
  rule: string;
  name: string;
  limit: string;
  from: string;
  cost: number;
  remaining_before: number;
  remaining_after: number;
  allowed: boolean;
  retry_after_us: number | null;
  not_enforced: string | null;
  decides: boolean;
}

export interface Explanation {
  domain: string;
  domain_found: boolean;
  allowed: boolean;
  decided_by: string | null;
  descriptors: {
    entries: { key: string; value: string; matched: string }[];
    why: string;
    tenant: string | null;
    tier: string | null;
    limits: ExplainedLimit[];
    replaced: string[];
  }[];
}

export interface Why {
  explanation: Explanation;
  denial: Denial | null;
  store: string;
  node: string;
  rules_version: string;
  mapped: Descriptor[] | null;
}

/** A request to explain or to send: by its descriptors, or by what a proxy would forward. */
export type RequestBody =
  | { domain: string; descriptors: Descriptor[]; cost?: number }
  | { domain: string; headers: Record<string, string>; method: string; path: string };

export interface TryResult {
  status: number;
  headers: Record<string, string>;
  body: unknown;
  mapped: Descriptor[] | null;
}

export interface WarningEvent {
  id: string;
  at: string;
  kind: string;
  domain: string;
  rule: string;
  limit: string;
  key: string | null;
  fingerprint: string;
  percent: number;
  used: number;
  of: number;
  window_ends: string | null;
  node: string;
  delivery: "sent" | "failed" | "queued" | "dropped" | "off";
}

export interface Events {
  events: WarningEvent[];
  webhook: { url_host: string; queued: number; sent: number; failed: number; dropped: number } | null;
}

export interface Override {
  domain?: string;
  descriptor: string;
  limit?: string;
  unlimited?: boolean;
  requests_per_unit?: number;
  unit?: string;
  duration?: string;
  burst?: number;
  algorithm?: string;
  effective_at: string | null;
  expires_at: string | null;
  in_effect: boolean;
}

export interface QuotaItem {
  tenant: string;
  tier: string | null;
  overrides: Override[];
  updated_at: string;
  revision: number;
}

export interface TenantLimit {
  domain: string;
  rule: string;
  descriptor: string;
  name: string;
  unlimited?: boolean;
  requests_per_unit?: number;
  unit?: string;
  burst?: number;
  algorithm?: string;
  from: string;
}

export interface Quota {
  tenant: string;
  tier: string | null;
  quotas: { default: TenantLimit | null; overrides: Override[] };
  limits: TenantLimit[];
  updated_at: string;
  revision: number;
}

export interface Usage {
  domain: string;
  rule: string;
  descriptor: string;
  name: string;
  used: number;
  limit: number;
  remaining: number;
  window: { start: string; end: string };
  from: string;
}

export interface TenantUsage {
  tenant: string;
  scope: "fleet" | "node";
  usage: Usage[];
}

export interface AuditChange {
  id: number;
  at: string;
  actor: string;
  action: string;
  kind: string;
  object: string;
  before: unknown;
  after: unknown;
  request_id: string;
}

export interface Token {
  id: string;
  name: string;
  role: Role;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

export interface Setting {
  name: string;
  value: string;
  from: string;
  secret: boolean;
}
