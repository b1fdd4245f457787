//! Limits that never deny anything, considered one by one.

use super::super::limit_spec::LimitSpec;
use super::{FindingKind, Linter, Severity};
use tidegate_core::Window;

/// No service handles more requests per second, so a higher limit is no limit at all.
const MAX_PER_SECOND: u128 = 1_000_000_000;

pub(super) fn find(linter: &mut Linter<'_>) {
    let mut found = Vec::new();
    for (index, visit) in linter.rules.iter().enumerate() {
        let rule = visit.rule();
        if !rule.counts() {
            continue;
        }
        for limit in rule.limits.iter().filter(|limit| is_out_of_reach(limit)) {
            found.push((index, format!(
                "limit {} allows more than a billion a second, which nobody reaches; lower it, or write unlimited: true",
                limit.effective_name()
            )));
        }
        if rule.shadow_mode && rule.enforce_percent < 100 {
            found.push((index, format!(
                "enforce_percent: {} has no effect together with shadow_mode, which enforces nothing; remove one of the two",
                rule.enforce_percent
            )));
        } else if rule.enforce_percent == 0 {
            found.push((index, "never denies, because enforce_percent is 0; raise it, or write shadow_mode: true if it is on trial".to_owned()));
        }
    }
    for (index, message) in found {
        linter.add(index, Severity::Warning, FindingKind::NeverDenies, message);
    }
}

fn is_out_of_reach(limit: &LimitSpec) -> bool {
    // A small burst can be used up at once, however fast it refills.
    let at_once = limit.burst.unwrap_or(limit.requests);
    match limit.window {
        Window::Period { us } => {
            let most = MAX_PER_SECOND * u128::from(us) / 1_000_000;
            u128::from(limit.requests) > most && u128::from(at_once) > MAX_PER_SECOND
        }
        Window::Calendar(_) => false,
    }
}
