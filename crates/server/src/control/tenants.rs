//! Converts the catalog's tenants to the limiter's.

use jiff::Timestamp;
use tidegate::{AlgorithmName, LimitChange, Override, ReadError, Tenant, TenantSource, TierLimit};
use tidegate_catalog::{self as catalog, Allowance, Catalog, Error, MAX_PAGE, Page, TenantFilter};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Sender};

use super::clock::CatalogClock;

/// Pages that are read ahead of the limiter.
const PAGES_AHEAD: usize = 2;

/// The tenants of a catalog, which the limiter reads when rules are loaded. A task of the control plane reads them page
/// by page, so that neither all of them are in memory at once nor anything else of the catalog is read.
pub struct CatalogTenants {
    catalog: Catalog,
    clock: CatalogClock,
    /// The runtime of the control plane.
    runtime: Handle,
}

impl CatalogTenants {
    pub(super) fn new(catalog: Catalog, clock: CatalogClock, runtime: Handle) -> Self {
        Self { catalog, clock, runtime }
    }
}

impl TenantSource for CatalogTenants {
    fn each(&self, put: &mut dyn FnMut(Tenant)) -> Result<(), ReadError> {
        let (sender, mut pages) = mpsc::channel(PAGES_AHEAD);
        self.runtime.spawn(send_pages(self.catalog.clone(), sender));
        let now = self.clock.now();
        // Rules are loaded on threads that may block.
        while let Some(page) = pages.blocking_recv() {
            let Page { items, next } = page?;
            for tenant in &items {
                put(engine_tenant(tenant, now));
            }
            if next.is_none() {
                return Ok(());
            }
        }
        Err("the control plane has ended".into())
    }
}

/// Sends all pages of tenants. A tenant that changes meanwhile is changed in the limiter afterwards.
async fn send_pages(catalog: Catalog, sender: Sender<Result<Page<catalog::Tenant>, Error>>) {
    let mut cursor = None;
    loop {
        let page = catalog.tenants(&TenantFilter::default(), cursor.as_deref(), MAX_PAGE).await;
        cursor = page.as_ref().ok().and_then(|page| page.next.clone());
        if sender.send(page).await.is_err() || cursor.is_none() {
            return;
        }
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
        replacement: match &item.allowance {
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
