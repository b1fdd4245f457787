//! Whether the service is ready, and why not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tidegate::Limiter;

use crate::control::CatalogHealth;

/// Whether the service is ready. Cheap to clone: all clones are the same.
#[derive(Clone)]
pub struct Health {
    limiter: Limiter,
    catalog: Option<CatalogHealth>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    serving: AtomicBool,
    draining: AtomicBool,
}

impl Health {
    /// The health of a service that is still starting.
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter, catalog: None, state: Arc::default() }
    }

    /// The same, with what it knows of the catalog.
    #[must_use]
    pub fn with_catalog(self, catalog: CatalogHealth) -> Self {
        Self { catalog: Some(catalog), ..self }
    }

    /// How the catalog does, if there is one.
    pub fn catalog(&self) -> Option<&CatalogHealth> {
        self.catalog.as_ref()
    }

    /// Whether requests should be sent here.
    pub fn is_ready(&self) -> bool {
        let knows_catalog = self.catalog.as_ref().is_none_or(CatalogHealth::is_usable);
        self.state.serving.load(Ordering::Acquire)
            && !self.is_draining()
            && self.limiter.has_rules()
            && knows_catalog
    }

    /// Whether the service is on its way out.
    pub fn is_draining(&self) -> bool {
        self.state.draining.load(Ordering::Acquire)
    }

    /// Notes that every listener is there.
    pub fn serving(&self) {
        self.state.serving.store(true, Ordering::Release);
    }

    /// Notes that the service is on its way out. It goes on answering.
    pub fn draining(&self) {
        self.state.draining.store(true, Ordering::Release);
    }

    /// How far from well things are: 0 normal, 1 some server of the store fails, 2 all do or one for long,
    /// 3 no rule is enforced. It changes no decision by itself.
    pub fn degradation(&self) -> u8 {
        if self.limiter.switches().all == tidegate::Switch::Off {
            return 3;
        }
        self.limiter.store_health().map_or(0, |health| health.degradation())
    }

    /// What an operator wants to know.
    pub fn detail(&self) -> serde_json::Value {
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
                "available": catalog.is_there(),
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
