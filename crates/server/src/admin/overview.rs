//! `/admin/v1/overview` and `/admin/v1/nodes`: whether all is well.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Admin;
use super::time::timestamp;
use crate::build_info;
use crate::config::settings::CatalogLocation;
use crate::health::{Degradation, Shard};
use crate::recorder::NodeView;

const TAG: &str = "overview";

/// The state of this node and of what it depends on.
#[derive(Serialize, ToSchema)]
pub(super) struct Overview {
    /// The name of this node.
    node: String,
    version: String,
    uptime_s: u64,
    #[schema(format = DateTime)]
    now: String,
    degradation: Degradation,
    rules: RulesState,
    store: StoreState,
    catalog: CatalogState,
    keys: KeysState,
    memory: MemoryState,
    /// All nodes that share the store; this node alone without one.
    nodes: Vec<NodeView>,
}

/// The rules in force.
#[derive(Serialize, ToSchema)]
struct RulesState {
    /// Changes with every reload.
    version: String,
    domains: usize,
    rules: usize,
    limits: usize,
    last_reload: Option<Reload>,
}

/// The last time that rules were put in force or refused.
#[derive(Serialize, ToSchema)]
struct Reload {
    #[schema(format = DateTime)]
    at: String,
    ok: bool,
    detail: Option<String>,
}

/// The store of the counters.
#[derive(Serialize, ToSchema)]
struct StoreState {
    /// `memory` or `redis`.
    kind: &'static str,
    shards: Vec<Shard>,
}

/// The catalog.
#[derive(Serialize, ToSchema)]
struct CatalogState {
    /// `sqlite` or `postgres`.
    kind: &'static str,
    /// `ready`, `away` or `refused`.
    state: &'static str,
    detail: Option<String>,
    /// How far this node's clock is ahead of the catalog's.
    clock_skew_ms: Option<i64>,
}

/// The counters in memory.
#[derive(Serialize, ToSchema)]
struct KeysState {
    used: usize,
    max: usize,
}

/// The memory of the process.
#[derive(Serialize, ToSchema)]
struct MemoryState {
    used_bytes: u64,
    max_bytes: u64,
}

/// The nodes that share a store.
#[derive(Serialize, ToSchema)]
pub(super) struct NodeList {
    nodes: Vec<NodeView>,
}

/// Returns the state of this node and of what it depends on.
#[utoipa::path(
    get, path = "/overview", tag = TAG,
    responses((status = 200, description = "The state", body = Overview))
)]
pub(super) async fn overview(State(admin): State<Admin>) -> Json<Overview> {
    let now = admin.limiter.now();
    let listing = admin.limiter.listing();
    let rules = listing.iter().flat_map(|domain| &domain.rules);
    let started = admin.recorder.started().unwrap_or(now);
    let reload = admin.recorder.last_reload().map(|(at, refused)| Reload {
        at: timestamp(at),
        ok: refused.is_none(),
        detail: refused,
    });
    let rules = RulesState {
        version: admin.limiter.generation().to_string(),
        domains: listing.len(),
        rules: rules.clone().count(),
        limits: rules.map(|rule| rule.rates.len() + usize::from(rule.concurrency.is_some())).sum(),
        last_reload: reload,
    };
    Json(Overview {
        node: admin.node.clone(),
        version: version(),
        uptime_s: now.0.saturating_sub(started.0) / 1_000_000,
        now: timestamp(now),
        degradation: admin.health.degradation_detail(),
        rules,
        store: StoreState {
            kind: if admin.limiter.is_shared() { "redis" } else { "memory" },
            shards: admin.health.shards(),
        },
        catalog: catalog(&admin),
        keys: KeysState { used: admin.limiter.stats().keys, max: admin.max_keys },
        memory: MemoryState { used_bytes: admin.memory.resident(), max_bytes: admin.memory.limit() },
        nodes: admin.recorder.nodes(),
    })
}

/// Lists the nodes that share the store.
#[utoipa::path(
    get, path = "/nodes", tag = TAG,
    responses((status = 200, description = "The nodes", body = NodeList))
)]
pub(super) async fn nodes(State(admin): State<Admin>) -> Json<NodeList> {
    Json(NodeList { nodes: admin.recorder.nodes() })
}

/// Returns `0.1.0+0123456789ab`.
pub(super) fn version() -> String {
    format!("{}+{}", build_info::VERSION, build_info::COMMIT)
}

fn catalog(admin: &Admin) -> CatalogState {
    let health = admin.control.health();
    let refused = health.refused();
    let state = match (health.is_reachable(), &refused) {
        (false, _) => "away",
        (true, Some(_)) => "refused",
        (true, None) => "ready",
    };
    CatalogState {
        kind: match admin.settings.catalog {
            CatalogLocation::Sqlite => "sqlite",
            CatalogLocation::Postgres(_) => "postgres",
        },
        state,
        detail: refused,
        clock_skew_ms: health.clock().skew().map(|skew| i64::try_from(skew.as_millis()).unwrap_or(i64::MAX)),
    }
}
