//! The field `tiers`: the limits of tiers.

use std::collections::BTreeMap;

use tidegate_core::MAX_COUNT;

use super::domain::{NO_TENANT_KEY, Reading};
use super::limit::{Limits, ReadLimit};
use super::report::Report;
use super::value::Value;
use super::window;
use super::words::{did_you_mean, list};
use crate::rules::limit_spec::{AlgorithmName, Defaults, LimitChange, SpecError};
use crate::rules::model::TierLimit;
use crate::rules::yaml::Content;

const FIELDS: [&str; 4] = ["requests", "per", "burst", "algorithm"];

/// Reads the tiers of a rule with these limits. If the name of some limit is unknown, a name that matches no
/// limit is not reported, because the mistake is elsewhere.
pub(super) fn tiers(
    value: Value<'_>,
    limits: &Limits,
    reading: &mut Reading,
) -> BTreeMap<String, BTreeMap<String, TierLimit>> {
    let (defaults, report) = (reading.defaults, &mut reading.report);
    if !reading.has_tenant_key {
        value.fault(report, NO_TENANT_KEY);
    }
    let mut tiers = BTreeMap::new();
    for (entry, tier) in value.entries(report) {
        let name = entry.key.as_ref().to_owned();
        reading.tiers.insert(name.clone());
        let changes: &mut BTreeMap<_, _> = tiers.entry(name).or_default();
        // A tier may leave every limit unchanged.
        if tier.node.is_null() {
            continue;
        }
        for (entry, change) in tier.entries(report) {
            let base = limits.all.iter().find(|limit| limit.name.as_deref() == Some(&entry.key));
            if base.is_none() && !limits.unknown_names {
                report.add(entry.place, &change.path, || no_such_limit(&entry.key, &limits.all));
            }
            if let Some(limit) = tier_limit(change, base, defaults, report) {
                changes.insert(entry.key.as_ref().to_owned(), limit);
            }
        }
    }
    tiers
}

fn no_such_limit(name: &str, limits: &[ReadLimit]) -> String {
    let known = || limits.iter().filter_map(|limit| limit.name.as_deref());
    match limits {
        [] => "the rule has no limits; add one, or remove the tier's".to_owned(),
        _ => format!(
            "the rule has no limit of that name; limits: {}{}",
            list(known()),
            did_you_mean(name, known())
        ),
    }
}

fn tier_limit(
    value: Value<'_>,
    base: Option<&ReadLimit>,
    defaults: Defaults,
    report: &mut Report,
) -> Option<TierLimit> {
    match &value.node.content {
        Content::Scalar { text, .. } if text == "unlimited" => Some(TierLimit::Unlimited),
        Content::Mapping(_) => change(value, base, defaults, report).map(TierLimit::Change),
        _ => {
            let fields = list(FIELDS);
            value.fault(
                report,
                format!("must be unlimited or a mapping with {fields}, got {}", value.found()),
            );
            None
        }
    }
}

fn change(
    value: Value<'_>,
    base: Option<&ReadLimit>,
    defaults: Defaults,
    report: &mut Report,
) -> Option<LimitChange> {
    let mistakes = report.count();
    let fields = value.fields(&FIELDS, report)?;
    let algorithm = fields.get("algorithm").and_then(|value| value.choice(&AlgorithmName::ALL, report));
    let now = base.map(|limit| &limit.spec.window);
    let change = LimitChange {
        requests: fields.whole("requests", 0..=MAX_COUNT, report),
        burst: fields.whole("burst", 0..=MAX_COUNT, report),
        window: fields.get("per").and_then(|per| window::changed(&per, now, report)),
        algorithm,
    };
    if report.count() > mistakes {
        return None;
    }
    if change == LimitChange::default() {
        value.fault(report, format!("changes nothing; give {}, or write unlimited", list(FIELDS)));
        return None;
    }
    let base = base.filter(|base| base.sound)?;
    if let Err(SpecError { field, reason }) = base.spec.changed(&change).build(&defaults) {
        let place = fields.get(field.name()).map_or(value.place(), |value| value.place());
        report.add(place, &value.path.field(field.name()), || reason);
    }
    Some(change)
}
