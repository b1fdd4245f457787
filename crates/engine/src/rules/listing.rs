//! The rules in force, for people and tools to read.

use serde::Serialize;

use super::model::OnStoreError;
use super::tree::{DomainTree, RuleEntry, RuleSet};
use crate::limiter::Limiter;

/// A domain in force.
#[derive(Clone, Debug, Serialize)]
pub struct DomainListing {
    /// Its name.
    pub domain: String,
    /// Which entry's value names the tenant.
    pub tenant: Option<String>,
    /// Whether every limit on a matched path applies.
    pub hierarchical: bool,
    /// How many distinct limits requests may bring along.
    pub inline_limits: Option<u64>,
    /// The key of its first rule: an example of what to ask about.
    #[serde(skip)]
    pub first_key: Option<String>,
    /// Its rules, in the order they were written.
    pub rules: Vec<RuleListing>,
}

/// A rule in force.
#[derive(Clone, Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags of a rule file")]
pub struct RuleListing {
    /// Its name, or its path.
    pub rule: String,
    /// Its path as envoyproxy/ratelimit writes it: `key_value.key`.
    #[serde(skip)]
    pub path: String,
    /// Its limits as numbers.
    #[serde(skip)]
    pub rates: Vec<RateListing>,
    /// Its limits as text.
    pub limits: Vec<String>,
    /// What each tier has instead.
    pub tiers: Vec<(String, Vec<String>)>,
    /// Its limit on holders.
    pub concurrency: Option<String>,
    /// Nothing is counted.
    pub unlimited: bool,
    /// Evaluated and counted only.
    pub shadow_mode: bool,
    /// Denies only together with every other quota.
    pub quota_mode: bool,
    /// How many percent of the keys are enforced.
    pub enforce_percent: u8,
    /// What to answer while the store cannot.
    pub on_store_error: OnStoreError,
    /// Whether metrics name the whole descriptor.
    pub detailed_metric: bool,
    /// Whether metrics name the value of the rule's key.
    pub value_to_metric: bool,
    /// What the file says about the rule for others to read.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

/// The numbers of a limit in force.
#[derive(Clone, Debug)]
pub struct RateListing {
    /// Its name, or its window.
    pub name: String,
    /// The window as text: `minute`, `90s`.
    pub window: String,
    /// Requests per window.
    pub requests: u64,
    /// The algorithm's name.
    pub algorithm: &'static str,
}

impl Limiter {
    /// The rules in force.
    pub fn listing(&self) -> Vec<DomainListing> {
        self.inner.rules.load().listing()
    }
}

impl RuleSet {
    pub(crate) fn listing(&self) -> Vec<DomainListing> {
        let domain = |domain: &DomainTree| DomainListing {
            domain: domain.name.to_string(),
            tenant: domain.tenant_key.as_deref().map(str::to_owned),
            hierarchical: domain.hierarchical,
            inline_limits: domain.inline_limits,
            first_key: domain.nodes[0].branches.first().map(|branch| branch.key.to_string()),
            rules: domain.rules.iter().map(|rule| rule.listing(domain)).collect(),
        };
        self.domains.iter().map(domain).collect()
    }
}

fn rate(entry: &super::tree::LimitEntry) -> RateListing {
    RateListing {
        name: entry.name.to_string(),
        window: entry.limit.window().to_string(),
        requests: entry.limit.requests(),
        algorithm: entry.limit.algorithm().name(),
    }
}

impl RuleEntry {
    fn listing(&self, domain: &DomainTree) -> RuleListing {
        let texts = |limits: &super::tree::LimitSet| {
            limits.iter().map(|entry| format!("{}: {}", entry.name, entry.limit)).collect()
        };
        let tier = |(tier, limits): &(u16, super::tree::LimitSet)| {
            (domain.tiers[usize::from(*tier)].to_string(), texts(limits))
        };
        RuleListing {
            rule: self.id.to_string(),
            path: self.path.to_string(),
            rates: self.limits.iter().map(rate).collect(),
            limits: texts(&self.limits),
            tiers: self.tiers.iter().map(tier).collect(),
            concurrency: self.concurrency.as_ref().map(|entry| entry.limit.to_string()),
            unlimited: self.unlimited,
            shadow_mode: self.shadow_mode,
            quota_mode: self.quota_mode,
            enforce_percent: self.enforce_percent,
            on_store_error: self.on_store_error,
            detailed_metric: self.detailed_metric,
            value_to_metric: self.value_to_metric,
            metadata: self.metadata.clone(),
        }
    }
}
