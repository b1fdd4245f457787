//! Whether the service is ready, and why it is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use tidegate::Limiter;
use tidegate_stores::redis::Circuit;
use utoipa::ToSchema;

use crate::control::CatalogHealth;

/// The health of the service. Clones share their state.
#[derive(Clone)]
pub struct Health {
    limiter: Limiter,
    catalog: Option<CatalogHealth>,
    state: Arc<State>,
}

/// How well the service does.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Degradation {
    /// 0 to 3.
    level: u8,
    /// `normal`, `degraded`, `emergency` or `disabled`.
    name: &'static str,
    /// Why it is not normal.
    reasons: Vec<String>,
}

/// A server of the shared store.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Shard {
    address: String,
    /// `up`, `open` while it fails, or `probing` while it comes back.
    state: &'static str,
    /// How long a call took on average since this node started.
    latency_us: Option<u64>,
    detail: Option<String>,
}

#[derive(Default)]
struct State {
    serving: AtomicBool,
    draining: AtomicBool,
}

impl Health {
    /// Returns the health of a service that is still starting.
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter, catalog: None, state: Arc::default() }
    }

    /// Adds the health of the catalog.
    #[must_use]
    pub fn with_catalog(self, catalog: CatalogHealth) -> Self {
        Self { catalog: Some(catalog), ..self }
    }

    /// Returns the health of the catalog, if there is one.
    pub fn catalog(&self) -> Option<&CatalogHealth> {
        self.catalog.as_ref()
    }

    /// Returns whether the service is ready for requests.
    pub fn is_ready(&self) -> bool {
        let knows_catalog = self.catalog.as_ref().is_none_or(CatalogHealth::is_usable);
        self.state.serving.load(Ordering::Acquire)
            && !self.is_draining()
            && self.limiter.has_rules()
            && knows_catalog
    }

    /// Returns whether the service is stopping.
    pub fn is_draining(&self) -> bool {
        self.state.draining.load(Ordering::Acquire)
    }

    /// Notes that every listener is open.
    pub fn set_serving(&self) {
        self.state.serving.store(true, Ordering::Release);
    }

    /// Records that the service is stopping. It still handles requests.
    pub fn set_draining(&self) {
        self.state.draining.store(true, Ordering::Release);
    }

    /// Returns the level of degradation: 0 normal, 1 a server of the store fails, 2 all do or one for long, 3 no rule is
    /// enforced. It does not affect decisions.
    pub fn degradation(&self) -> u8 {
        if self.limiter.switches().all == tidegate::Switch::Off {
            return 3;
        }
        self.limiter.store_health().map_or(0, |health| health.degradation())
    }

    /// Returns the level of degradation with its reasons.
    pub fn degradation_detail(&self) -> Degradation {
        let level = self.degradation();
        let mut reasons = Vec::new();
        if self.limiter.switches().all == tidegate::Switch::Off {
            reasons.push("enforcement is switched off for all rules".to_owned());
        }
        let failing = self.shards().into_iter().filter(|shard| shard.state == "open");
        reasons.extend(failing.map(|shard| {
            format!(
                "the store {} fails{}",
                shard.address,
                shard.detail.map_or(String::new(), |why| format!(": {why}"))
            )
        }));
        Degradation { level, name: degradation_name(level), reasons }
    }

    /// Returns the servers of the shared store; none without one.
    pub fn shards(&self) -> Vec<Shard> {
        let Some(health) = self.limiter.store_health() else { return Vec::new() };
        let shard = |(address, circuit, open_for): &(String, Circuit, Option<std::time::Duration>)| {
            let latencies = health.latencies.iter().find(|latencies| latencies.server == *address);
            let average = latencies.and_then(|latencies| {
                let calls = latencies.buckets.iter().sum::<u64>();
                (latencies.sum.as_micros() as u64).checked_div(calls)
            });
            Shard {
                address: address.clone(),
                state: match circuit {
                    Circuit::Closed => "up",
                    Circuit::Open => "open",
                    Circuit::Recovering => "probing",
                },
                latency_us: average,
                detail: open_for.map(|time| format!("failing for {:.1} s", time.as_secs_f64())),
            }
        };
        health.servers.iter().map(shard).collect()
    }

    /// Returns the response of `/healthcheck`, as in envoyproxy/ratelimit.
    pub fn healthcheck(&self) -> (StatusCode, &'static str) {
        if self.is_ready() {
            (StatusCode::OK, "OK")
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "not ready; see GET /readyz")
        }
    }

    /// Returns the response of `/readyz`, with the details for operators.
    pub fn readyz(&self) -> (StatusCode, serde_json::Value) {
        let status = if self.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, self.detail())
    }

    fn detail(&self) -> serde_json::Value {
        let refused = self
            .limiter
            .refused_rules()
            .map(|problems| problems.0.iter().map(ToString::to_string).collect::<Vec<_>>());
        let store = self.limiter.store_health().map_or_else(
            || json!({ "kind": "memory", "degradation": self.degradation() }),
            |health| {
                let servers = health.servers.iter().map(|(server, circuit, open_for)| {
                    let open_for_ms = open_for.map(|time| time.as_millis() as u64);
                    json!({ "server": server, "circuit": circuit.name(), "failing_for_ms": open_for_ms })
                });
                json!({
                    "kind": "redis",
                    "degradation": self.degradation(),
                    "nodes": health.nodes,
                    "servers": servers.collect::<Vec<_>>(),
                })
            },
        );
        let catalog = self.catalog.as_ref().map(|catalog| {
            json!({
                "available": catalog.is_reachable(),
                "known": catalog.is_known(),
                "version": catalog.version(),
                "refused": catalog.refused(),
                "tenants": self.limiter.tenants(),
            })
        });
        json!({
            "ready": self.is_ready(),
            "draining": self.is_draining(),
            "store": store,
            "catalog": catalog,
            "keys": self.limiter.stats().keys,
            "rules": {
                "generation": self.limiter.generation(),
                "domains": self.limiter.domain_names(),
                "refused": refused,
            },
        })
    }
}

/// Returns the word for a level of degradation.
pub(crate) fn degradation_name(level: u8) -> &'static str {
    ["normal", "degraded", "emergency", "disabled"][usize::from(level.min(3))]
}
