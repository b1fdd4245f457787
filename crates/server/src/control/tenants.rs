//! Converts the catalog's tenants to the limiter's.

use jiff::Timestamp;
use tidegate::{AlgorithmName, LimitChange, Override, Tenant, TenantSource, TierLimit};
use tidegate_catalog::{self as catalog, Allowance, Catalog, TenantChange};

use super::clock::CatalogClock;

/// The tenants of a catalog, which the limiter reads when rules are loaded.
pub struct CatalogTenants(Catalog, CatalogClock);

impl CatalogTenants {
    pub(super) fn new(catalog: Catalog, clock: CatalogClock) -> Self {
        Self(catalog, clock)
    }
}

impl TenantSource for CatalogTenants {
    fn each(&self, put: &mut dyn FnMut(Tenant)) -> Result<(), String> {
        // Rules are loaded on threads of their own, which may block.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let all = runtime.block_on(self.0.everything()).map_err(|error| error.to_string())?;
        let now = self.1.now();
        for change in &all.tenants {
            if let TenantChange::Put(tenant) = change {
                put(engine_tenant(tenant, now));
            }
        }
        Ok(())
    }
}

/// Returns what applies to a tenant at a point in time.
pub(super) fn engine_tenant(tenant: &catalog::Tenant, now: Timestamp) -> Tenant {
    let holding = tenant.overrides.iter().filter(|item| item.holds_at(now));
    Tenant {
        name: tenant.name.clone(),
        tier: tenant.tier.clone(),
        overrides: holding.map(engine_override).collect(),
    }
}

/// Converts an override, without its start and end.
pub fn engine_override(item: &catalog::Override) -> Override {
    let entries = item.descriptor.entries().iter();
    Override {
        domain: item.domain.clone(),
        descriptor: entries.map(|entry| (entry.key.clone(), entry.value.clone())).collect(),
        limit: item.limit.clone(),
        instead: match &item.allowance {
            Allowance::Unlimited => TierLimit::Unlimited,
            Allowance::Limited(numbers) => TierLimit::Change(LimitChange {
                requests: Some(numbers.requests),
                burst: numbers.burst,
                window: numbers.window.map(window),
                algorithm: numbers.algorithm.as_deref().and_then(AlgorithmName::parse),
            }),
        },
    }
}

fn window(window: catalog::Window) -> tidegate::Window {
    match window {
        // Every unit of the catalog is also a unit of rules.
        catalog::Window::Unit(unit) => {
            tidegate::Window::named(unit.name()).unwrap_or(tidegate::Window::seconds(60))
        }
        catalog::Window::DurationUs(us) => tidegate::Window::Period { us },
    }
}
