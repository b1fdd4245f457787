//! Limits of a few requests that are estimated by a sliding window.
//!
//! The previous window counts by its overlap, rounded up. So with a limit of a few requests, the last request
//! of a window counts until nearly two windows have passed.

use super::super::limit_spec::{AlgorithmName, LimitSpec, SMALL};
use super::super::model::{CODE, TierLimit};
use super::{FindingKind, Linter, Severity};

pub(super) fn find(linter: &mut Linter<'_>) {
    let mut found = Vec::new();
    for (index, visit) in linter.rules.iter().enumerate() {
        let rule = visit.rule();
        // Small limits in code are exact, unless tiers change them.
        if !rule.counts() || (linter.domain.source == CODE && rule.tiers.is_empty()) {
            continue;
        }
        for limit in &rule.limits {
            let name = limit.effective_name();
            if is_coarse(limit, linter.defaults.algorithm) {
                found.push((index, message(&format!("limit {name}"), limit)));
            }
            for (tier, changes) in &rule.tiers {
                let Some(TierLimit::Change(change)) = changes.get(&name) else { continue };
                let changed = limit.changed(change);
                if is_coarse(&changed, linter.defaults.algorithm) {
                    found.push((index, message(&format!("limit {name} of tier {tier}"), &changed)));
                }
            }
        }
    }
    for (index, message) in found {
        linter.add(index, Severity::Note, FindingKind::SmallEstimate, message);
    }
}

fn message(whose: &str, limit: &LimitSpec) -> String {
    let LimitSpec { requests, window, .. } = limit;
    format!(
        "{whose} of {requests} per {window} is a sliding_window, which estimates: a client at the limit may wait \
         for nearly two windows; write algorithm: sliding_log, which is exact and cheap for so few"
    )
}

fn is_coarse(limit: &LimitSpec, default: AlgorithmName) -> bool {
    limit.algorithm.unwrap_or(default) == AlgorithmName::SlidingWindow
        && (1..=SMALL).contains(&limit.requests)
}
