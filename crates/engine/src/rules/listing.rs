//! The rules in force, for people and tools to read.

use serde::Serialize;
use tidegate_core::Limit;

use super::model::OnStoreError;
use super::tree::{DomainTree, RuleEntry, RuleSet};
use crate::limiter::Limiter;

/// A domain in force.
#[derive(Clone, Debug, Serialize)]
pub struct DomainListing {
    /// The name of the domain.
    pub domain: String,
    /// The key of the entry whose value names the tenant.
    pub tenant: Option<String>,
    /// Whether every limit on a matched path applies.
    pub hierarchical: bool,
    /// The most distinct inline limits of requests; `None` if requests may not have inline limits.
    pub inline_limits: Option<u64>,
    /// The key of the first rule, for examples of requests.
    #[serde(skip)]
    pub first_key: Option<String>,
    /// The rules, in the order they were written.
    pub rules: Vec<RuleListing>,
}

/// A rule in force.
#[derive(Clone, Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags of a rule file")]
pub struct RuleListing {
    /// The name of the rule, or its path.
    pub rule: String,
    /// The path of the rule in the notation of envoyproxy/ratelimit: `key_value.key`.
    #[serde(skip)]
    pub path: String,
    /// The limits as numbers.
    #[serde(skip)]
    pub rates: Vec<RateListing>,
    /// The limits as text.
    pub limits: Vec<String>,
    /// The limits of each tier that has others.
    pub tiers: Vec<(String, Vec<String>)>,
    /// The concurrency limit as text.
    pub concurrency: Option<String>,
    /// Whether requests are allowed without counting.
    pub unlimited: bool,
    /// Whether the rule is evaluated and counted, but denies nothing.
    pub shadow_mode: bool,
    /// Whether the rule denies only if every other quota of the request denies too.
    pub quota_mode: bool,
    /// The percentage of keys for which the rule is enforced.
    pub enforce_percent: u8,
    /// How requests are decided while the shared store fails.
    pub on_store_error: OnStoreError,
    /// Whether metrics have the whole descriptor as a label.
    pub detailed_metric: bool,
    /// Whether metrics have the value of the rule's key as a label.
    pub value_to_metric: bool,
    /// Whether lists of keys show only fingerprints.
    pub hide_keys: bool,
    /// The percentages of a limit at which a warning is sent.
    pub warn_at: Vec<u8>,
    /// The metadata of the rule, which other tools may use.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

/// The numbers of a limit in force.
#[derive(Clone, Debug)]
pub struct RateListing {
    /// The name of the limit, or its window.
    pub name: String,
    /// The window as text, such as `minute` or `90s`.
    pub window: String,
    /// Requests per window.
    pub requests: u64,
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// The numbers of the limit.
    pub limit: Limit,
}

impl Limiter {
    /// Returns the rules in force.
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
        limit: entry.limit.clone(),
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
            hide_keys: self.hide_keys,
            warn_at: self.warn_at.to_vec(),
            metadata: self.metadata.clone(),
        }
    }
}
