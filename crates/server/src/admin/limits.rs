//! The limits of a tenant, as answers show them.

use serde::Serialize;
use tidegate::{Limit, Limiter, TenantLimit};
use tidegate_core::Algorithm;
use utoipa::ToSchema;

/// A limit that applies to a tenant.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct LimitShown {
    domain: String,
    /// The rule it belongs to.
    rule: String,
    /// `default` for the tenant's own rule.
    descriptor: String,
    /// The limit's name, or its window.
    name: String,
    #[serde(flatten)]
    numbers: Numbers,
    /// Where the numbers come from: `rule`, `tier` or `override`.
    from: &'static str,
}

/// The numbers of a limit; none where it is unlimited.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct Numbers {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unlimited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_unit: Option<u64>,
    /// The unit, or another length of time.
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

impl LimitShown {
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

    /// Whether it is of the tenant's own rule.
    pub(super) fn is_of_tenant(&self) -> bool {
        self.descriptor == "default"
    }
}

fn has_burst(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. })
}

/// A descriptor without the tenant's entry.
pub(super) fn descriptor(text: &str) -> String {
    if text.is_empty() { "default".to_owned() } else { text.to_owned() }
}

/// What applies to a tenant whatever else a request says.
pub(super) fn of_tenant(limiter: &Limiter, tenant: &str) -> Vec<LimitShown> {
    limiter.tenant_limits(tenant).into_iter().map(LimitShown::new).collect()
}

/// The tiers that rules have.
pub(super) fn tiers(limiter: &Limiter) -> Vec<String> {
    let domains = limiter.listing();
    let rules = domains.into_iter().flat_map(|domain| domain.rules);
    let mut tiers: Vec<String> = rules.flat_map(|rule| rule.tiers).map(|(tier, _)| tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    tiers
}
