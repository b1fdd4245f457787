//! The limits that apply to a tenant.

use serde::Serialize;
use tidegate_core::Limit;

use super::walk::{Descriptor, Found, Target};
use crate::limiter::Limiter;
use crate::request::Entry;
use crate::rules::find::Hit;
use crate::rules::tree::{LimitEntry, RuleSet};
use crate::tenants::own::OverrideIndex;

/// A limit that applies to a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantLimit {
    /// The domain.
    pub domain: String,
    /// The name of the rule, or its path.
    pub rule: String,
    /// The entries without the tenant's as text, such as `endpoint:POST /orders`; empty for the tenant's own
    /// rule.
    pub descriptor: String,
    /// The name of the limit, or its window.
    pub name: String,
    /// The numbers of the limit; `None` if it does not apply to the tenant.
    pub limit: Option<Limit>,
    /// Whether the numbers come from the rule, the tier or an override.
    pub from: LimitOrigin,
}

/// The origin of a limit's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitOrigin {
    /// The rule itself.
    Rule,
    /// The rule's limits for the tenant's tier.
    Tier,
    /// The tenant's override.
    Override,
}

impl LimitOrigin {
    /// Returns the name of the origin in API responses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Tier => "tier",
            Self::Override => "override",
        }
    }
}

/// A rule that applies to a tenant, with the entries that lead to it.
pub(super) struct Reached<'r> {
    pub(super) found: Found<'r>,
    pub(super) entries: Vec<Entry<'r>>,
}

impl Limiter {
    /// Returns the limits of the rules that the name of the tenant leads to, alone or with fixed values.
    /// Limits that do not apply to the tenant are included, with `limit` set to `None`.
    pub fn tenant_limits(&self, tenant: &str) -> Vec<TenantLimit> {
        let rules = self.inner.rules.load();
        let mut limits = Vec::new();
        for reached in rules.reached(tenant, None) {
            let Some(hit) = rules.hit(&reached, tenant) else { continue };
            rules.each_named(&hit, |base, limit, from| {
                limits.push(TenantLimit {
                    domain: reached.found.domain.name.to_string(),
                    rule: hit.rule.id.to_string(),
                    descriptor: reached.found.text(),
                    name: base.name.to_string(),
                    limit: limit.cloned(),
                    from,
                });
            });
        }
        limits
    }
}

impl RuleSet {
    /// Returns the rules that a tenant leads to with this descriptor, or without one with fixed values, and
    /// whose counters are known from that.
    pub(super) fn reached<'r>(
        &'r self,
        tenant: &'r str,
        descriptor: Option<&'r Descriptor>,
    ) -> Vec<Reached<'r>> {
        let target = descriptor.map_or(Target::Fixed, Target::Descriptor);
        let found = self.walk(tenant, None, target).into_iter();
        found
            .filter(|found| !found.is_shared())
            .filter_map(|found| Some(Reached { entries: found.entries()?, found }))
            .collect()
    }

    /// Returns how a rule applies to the tenant.
    pub(super) fn hit<'r>(&'r self, reached: &'r Reached<'r>, tenant: &str) -> Option<Hit<'r>> {
        let Found { domain_number, domain, .. } = reached.found;
        self.find_for((domain_number, domain), &reached.entries, Some(tenant))
    }

    /// Calls `each` for every limit of a rule, with the numbers that apply (`None` if the limit does not
    /// apply to the tenant) and their origin.
    pub(super) fn each_named<'r>(
        &self,
        hit: &Hit<'r>,
        mut each: impl FnMut(&'r LimitEntry, Option<&'r Limit>, LimitOrigin),
    ) {
        let mut applied = Vec::new();
        hit.each_limit(self.seed, |limit| applied.push(limit));
        for base in &hit.rule.limits {
            let found = applied.iter().find(|limit| limit.entry.number == base.number);
            let overridden = hit.own_limit(self.seed, base.number).is_some();
            let limit = found.map(|found| found.limit);
            let from = match found {
                _ if overridden => LimitOrigin::Override,
                Some(found) if found.own == OverrideIndex::NONE && *found.limit == base.limit => {
                    LimitOrigin::Rule
                }
                _ => LimitOrigin::Tier,
            };
            each(base, limit, from);
        }
    }
}
