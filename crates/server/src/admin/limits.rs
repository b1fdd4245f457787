//! The limits of a tenant in responses.

use serde::Serialize;
use tidegate::{Limit, Limiter, TenantLimit};
use tidegate_core::Algorithm;
use utoipa::ToSchema;

/// A limit that applies to a tenant.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct LimitView {
    domain: String,
    /// The rule that has the limit.
    rule: String,
    /// `default` for the tenant's own rule.
    descriptor: String,
    /// The name of the limit, or its window.
    name: String,
    #[serde(flatten)]
    numbers: Numbers,
    /// The origin of the numbers: `rule`, `tier` or `override`.
    from: &'static str,
}

/// The numbers of a limit; absent if it is unlimited.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct Numbers {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unlimited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_unit: Option<u64>,
    /// The unit, or another duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
}

impl Numbers {
    fn new(limit: Option<&Limit>) -> Self {
        Self {
            unlimited: limit.is_none(),
            requests_per_unit: limit.map(Limit::requests),
            unit: limit.map(|limit| limit.window().to_string()),
            burst: limit.filter(|limit| has_burst(limit)).map(Limit::burst),
            algorithm: limit.map(|limit| limit.algorithm().name()),
        }
    }
}

impl LimitView {
    fn new(limit: TenantLimit) -> Self {
        Self {
            numbers: Numbers::new(limit.limit.as_ref()),
            descriptor: descriptor(&limit.descriptor),
            domain: limit.domain,
            rule: limit.rule,
            name: limit.name,
            from: limit.from.name(),
        }
    }

    /// Returns whether it is a limit of the tenant's own rule.
    pub(super) fn is_default(&self) -> bool {
        self.descriptor == "default"
    }
}

fn has_burst(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. })
}

/// Returns a descriptor without the tenant's entry; `default` if nothing else is left.
pub(super) fn descriptor(text: &str) -> String {
    if text.is_empty() { "default".to_owned() } else { text.to_owned() }
}

/// Returns the limits that apply to every request of a tenant.
pub(super) fn of_tenant(limiter: &Limiter, tenant: &str) -> Vec<LimitView> {
    limiter.tenant_limits(tenant).into_iter().map(LimitView::new).collect()
}

/// Returns the tiers in the rules, sorted.
pub(super) fn tiers(limiter: &Limiter) -> Vec<String> {
    let domains = limiter.listing();
    let rules = domains.into_iter().flat_map(|domain| domain.rules);
    let mut tiers: Vec<String> = rules.flat_map(|rule| rule.tiers).map(|(tier, _)| tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    tiers
}
