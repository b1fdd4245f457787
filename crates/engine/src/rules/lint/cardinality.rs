//! Counters and metric labels for an unbounded number of values.
//!
//! A counter per path limits nothing if clients can invent paths: the next path has a fresh counter. It is
//! harmless if a limit of an ancestor rule bounds how many a client can try, which needs a hierarchical
//! domain.

use super::super::model::Rule;
use super::keys::{endless, too_many_for_metrics};
use super::{FindingKind, Linter, Severity, Visit};

pub(super) fn find(linter: &mut Linter<'_>) {
    let mut found = Vec::new();
    for (index, visit) in linter.rules.iter().enumerate() {
        let rule = visit.rule();
        if rule.counts() || rule.concurrency.is_some() {
            found.extend(
                counter(visit, linter.domain.hierarchical)
                    .map(|message| (index, FindingKind::UnboundedKey, message)),
            );
        }
        found.extend(label(visit).map(|message| (index, FindingKind::UnboundedMetric, message)));
    }
    for (index, kind, message) in found {
        linter.add(index, Severity::Warning, kind, message);
    }
}

fn counter(visit: &Visit<'_>, hierarchical: bool) -> Option<String> {
    let at = visit.path.iter().position(|rule| rule.varies() && endless(&rule.key))?;
    if hierarchical && visit.path[..at].iter().any(|above| above.counts() && enforced(above)) {
        return None;
    }
    let key = &visit.path[at].key;
    let shared = match visit.path[at].given_value() {
        Some(_) => "share one counter among all values with share_threshold: true".to_owned(),
        None => format!("match the values of {key} you know, or patterns with share_threshold: true"),
    };
    Some(format!(
        "has a counter for every value of {key}, and clients can make up new ones without end, each with a fresh limit; {shared}, or put it below a limited key in a hierarchical domain"
    ))
}

fn enforced(rule: &Rule) -> bool {
    !rule.shadow_mode && rule.enforce_percent == 100
}

/// Checks the labels of metrics. `value_to_metric` shows the value of the rule's own key, `detailed_metric`
/// the values of the whole path.
fn label(visit: &Visit<'_>) -> Option<String> {
    let rule = visit.rule();
    let (flag, shown): (_, &[&Rule]) = match (rule.detailed_metric, rule.value_to_metric) {
        (true, _) => ("detailed_metric", &visit.path),
        (false, true) => ("value_to_metric", &visit.path[visit.path.len() - 1..]),
        (false, false) => return None,
    };
    let key = &shown.iter().find(|rule| rule.varies() && too_many_for_metrics(&rule.key))?.key;
    Some(format!(
        "{flag} makes a series for every value of {key}, of which there are too many: metrics keep the first 1,000 and call the rest `other`; remove {flag}"
    ))
}
