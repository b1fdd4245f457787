//! Small findings: rules without an effect, duplicate names, `replaces` without a target, and limits that
//! checks ignore.

use std::collections::{HashMap, HashSet};

use super::implied::replaces;
use super::{FindingKind, Linter, Severity};

pub(super) fn find(linter: &mut Linter<'_>) {
    let names: HashSet<&str> = linter
        .rules
        .iter()
        .flat_map(|visit| &visit.rule().limits)
        .filter_map(|limit| limit.name.as_deref())
        .collect();
    let mut ids: HashMap<&str, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, visit) in linter.rules.iter().enumerate() {
        let rule = visit.rule();
        let idle = rule.limits.is_empty() && !rule.unlimited && rule.concurrency.is_none();
        if idle && rule.rules.is_empty() {
            let message = "has no limits and no rules below it; give it a limit, or write unlimited: true if its requests are to be exempt";
            found.push((index, Severity::Warning, FindingKind::EmptyRule, message.to_owned()));
        }
        if let Some(first) = ids.get(visit.id.as_str()) {
            let first = linter.rules[*first].rule();
            let place = first.position.0.map_or(String::new(), |place| format!(" on line {}", place.line));
            let message = format!(
                "another rule{place} has the same name, and metrics and decisions cannot distinguish them; give each its own"
            );
            found.push((index, Severity::Warning, FindingKind::NameTwice, message));
        } else {
            ids.insert(&visit.id, index);
        }
        for name in replaces(rule).filter(|name| !names.contains(name)) {
            let message =
                format!("replaces {name}, but no limit of the domain has that name; correct or remove it");
            found.push((index, Severity::Warning, FindingKind::ReplacesNothing, message));
        }
        if rule.concurrency.is_some() {
            let message = "its concurrency limit applies to acquire and release only; Envoy's protocol and /v1/check ignore it";
            found.push((index, Severity::Note, FindingKind::ConcurrencyOnly, message.to_owned()));
        }
    }
    for (index, severity, kind, message) in found {
        linter.add(index, severity, kind, message);
    }
}
