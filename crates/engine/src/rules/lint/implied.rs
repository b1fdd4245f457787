//! Limits that never deny, because another limit of the same rule always denies first.
//!
//! Both limits count the same requests of the same key, and a request that one denies is charged to neither.
//! So a limit is implied if the most that the other one allows, however requests arrive, is within it. The
//! bounds are conservative: every finding is correct, but not every implied limit is found.

use std::collections::HashSet;

use tidegate_core::{LeakyMode, Window};

use super::super::limit_spec::{AlgorithmName, LimitSpec};
use super::super::model::Rule;
use super::{FindingKind, Linter, Severity};

pub(super) fn find(linter: &mut Linter<'_>) {
    // If denied requests are counted, they also fill the other limit.
    if linter.defaults.count_denied {
        return;
    }
    let replaced: HashSet<&str> = linter.rules.iter().flat_map(|visit| replaces(visit.rule())).collect();
    let mut found = Vec::new();
    for (index, visit) in linter.rules.iter().enumerate() {
        let rule = visit.rule();
        if !rule.counts() {
            continue;
        }
        let rates: Vec<_> =
            rule.limits.iter().map(|limit| Rate::of(limit, linter.defaults.algorithm)).collect();
        for (at, limit) in rule.limits.iter().enumerate() {
            let stricter = rule.limits.iter().enumerate().find(|(other_at, other)| {
                let (Some(one), Some(two)) = (&rates[*other_at], &rates[at]) else { return false };
                // Of two equivalent limits, the second one is reported.
                *other_at != at
                    && is_always_there(rule, other, &replaced)
                    && !changes(rule, limit)
                    && one.implies(two)
                    && (*other_at < at || !two.implies(one))
            });
            if let Some((_, stricter)) = stricter {
                let (name, by) = (limit.effective_name(), stricter.effective_name());
                found.push((index, format!("limit {name} never denies: limit {by} always denies before it; remove {name}, or change its numbers")));
            }
        }
    }
    for (index, message) in found {
        linter.add(index, Severity::Warning, FindingKind::NeverDenies, message);
    }
}

/// Returns the names of limits that a rule replaces.
pub(super) fn replaces(rule: &Rule) -> impl Iterator<Item = &str> {
    let own = rule.limits.iter().flat_map(|limit| &limit.replaces);
    rule.replaces.iter().chain(own).map(String::as_str)
}

fn changes(rule: &Rule, limit: &LimitSpec) -> bool {
    let name = limit.effective_name();
    rule.tiers.values().any(|tier| tier.contains_key(&name))
}

/// Returns whether the limit applies to every request of its rule with the same numbers.
fn is_always_there(rule: &Rule, limit: &LimitSpec, replaced: &HashSet<&str>) -> bool {
    !changes(rule, limit) && limit.name.as_deref().is_none_or(|name| !replaced.contains(name))
}

/// The numbers of a limit with defaults applied.
struct Rate {
    algorithm: AlgorithmName,
    requests: u128,
    window_us: u128,
    /// Used for buckets only.
    burst: u128,
    buckets: Option<u32>,
}

impl Rate {
    /// Returns `None` for limits that are not compared: calendar windows, whose lengths vary, and queues, in
    /// which requests can wait.
    fn of(limit: &LimitSpec, default: AlgorithmName) -> Option<Self> {
        let Window::Period { us } = limit.window else { return None };
        let algorithm = limit.algorithm.unwrap_or(default);
        if limit.mode == Some(LeakyMode::Queue) || us == 0 {
            return None;
        }
        let burst = match algorithm {
            AlgorithmName::LeakyBucket => limit.burst.unwrap_or(1),
            _ => limit.burst.unwrap_or(limit.requests.max(1)),
        };
        let (requests, window_us) = (u128::from(limit.requests), u128::from(us));
        Some(Self { algorithm, requests, window_us, burst: u128::from(burst), buckets: limit.buckets })
    }

    fn is_bucket(&self) -> bool {
        matches!(self.algorithm, AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket)
    }

    /// Returns whether the other limit allows everything that this one allows.
    fn implies(&self, other: &Self) -> bool {
        let same_algorithm = self.algorithm == other.algorithm && self.buckets == other.buckets;
        if self.is_bucket() && other.is_bucket() {
            let slower = self.requests * other.window_us <= other.requests * self.window_us;
            return slower && self.burst <= other.burst;
        }
        if same_algorithm && self.window_us == other.window_us {
            return self.requests <= other.requests;
        }
        match other.looks_back_us() {
            Some(span_us) => self.most_within(span_us) <= other.requests,
            None => false,
        }
    }

    /// Returns how far back the limit counts requests; `None` for buckets, which drain continuously.
    fn looks_back_us(&self) -> Option<u128> {
        match self.algorithm {
            AlgorithmName::FixedWindow | AlgorithmName::SlidingLog => Some(self.window_us),
            AlgorithmName::SlidingWindow | AlgorithmName::SubWindows => Some(2 * self.window_us),
            AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket => None,
        }
    }

    /// Returns the most units that pass within any span of this length.
    fn most_within(&self, span_us: u128) -> u128 {
        if self.is_bucket() {
            return self.burst + (self.requests * span_us).div_ceil(self.window_us) + 1;
        }
        // A span overlaps one window more than fit into it.
        self.requests * (span_us.div_ceil(self.window_us) + 1)
    }
}
