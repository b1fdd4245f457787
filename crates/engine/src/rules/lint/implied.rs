//! Limits that never deny because another limit of the same rule always denies first.
//!
//! Both count the same requests of the same key, and a request that one denies is charged to neither.
//! So a limit is implied if the most that the other lets pass, however requests arrive, is within it.
//! The bounds used are safe ones: what is told is so, and what is not told may be so all the same.

use std::collections::HashSet;

use tidegate_core::{LeakyMode, Window};

use super::super::limit_spec::{AlgorithmName, LimitSpec};
use super::super::model::Rule;
use super::{FindingKind, Linter, Severity};

pub(super) fn find(linter: &mut Linter<'_>) {
    // A denied request that is counted all the same fills the other limit, too.
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
                // Of two limits that come to the same the second is the one too many.
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

/// The names of limits that a rule stands in for.
pub(super) fn replaces(rule: &Rule) -> impl Iterator<Item = &str> {
    let own = rule.limits.iter().flat_map(|limit| &limit.replaces);
    rule.replaces.iter().chain(own).map(String::as_str)
}

fn changes(rule: &Rule, limit: &LimitSpec) -> bool {
    let name = limit.effective_name();
    rule.tiers.values().any(|tier| tier.contains_key(&name))
}

/// Whether the limit applies to every request of its rule with the same numbers.
fn is_always_there(rule: &Rule, limit: &LimitSpec, replaced: &HashSet<&str>) -> bool {
    !changes(rule, limit) && limit.name.as_deref().is_none_or(|name| !replaced.contains(name))
}

/// What a limit comes to.
struct Rate {
    algorithm: AlgorithmName,
    requests: u128,
    window_us: u128,
    /// For buckets.
    burst: u128,
    buckets: Option<u32>,
}

impl Rate {
    /// `None` for limits that are not compared: calendar windows, whose lengths vary, and queues,
    /// which can be waited in.
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

    /// Whether whatever this limit lets pass, the other would.
    fn implies(&self, other: &Self) -> bool {
        let same_way = self.algorithm == other.algorithm && self.buckets == other.buckets;
        if self.is_bucket() && other.is_bucket() {
            let slower = self.requests * other.window_us <= other.requests * self.window_us;
            return slower && self.burst <= other.burst;
        }
        if same_way && self.window_us == other.window_us {
            return self.requests <= other.requests;
        }
        match other.looks_back_us() {
            Some(span_us) => self.most_within(span_us) <= other.requests,
            None => false,
        }
    }

    /// How far back what the limit counts may lie; `None` for buckets, which forget bit by bit.
    fn looks_back_us(&self) -> Option<u128> {
        match self.algorithm {
            AlgorithmName::FixedWindow | AlgorithmName::SlidingLog => Some(self.window_us),
            AlgorithmName::SlidingWindow | AlgorithmName::SubWindows => Some(2 * self.window_us),
            AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket => None,
        }
    }

    /// The most that passes within any span of that length.
    fn most_within(&self, span_us: u128) -> u128 {
        if self.is_bucket() {
            return self.burst + (self.requests * span_us).div_ceil(self.window_us) + 1;
        }
        // A span touches one window more than fit into it.
        self.requests * (span_us.div_ceil(self.window_us) + 1)
    }
}
