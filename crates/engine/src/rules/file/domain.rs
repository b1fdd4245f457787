//! The top level of a rule file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::descriptor::descriptor_list;
use super::forward_auth::forward_auth;
use super::report::{Firsts, Report};
use super::value::Value;
use super::words::{did_you_mean, list, quoted};
use crate::rules::limit_spec::Defaults;
use crate::rules::model::Domain;
use crate::rules::problem::Place;

const FIELDS: [&str; 7] =
    ["domain", "descriptors", "tenant", "hierarchical", "tenants", "inline_limits", "forward_auth"];

const MAX_INLINE_LIMITS: u64 = 1_000_000;

/// The state while a file is read.
pub(super) struct Reading {
    pub(super) defaults: Defaults,
    pub(super) report: Report,
    /// Whether the domain has a tenant key.
    pub(super) has_tenant_key: bool,
    /// The number of rules so far.
    pub(super) rules: usize,
    /// The position of each rule name.
    pub(super) names: Firsts<String>,
    /// The tiers that rules define.
    pub(super) tiers: BTreeSet<String>,
}

impl Reading {
    pub(super) fn new(defaults: Defaults, report: Report) -> Self {
        let (names, tiers) = (Firsts::default(), BTreeSet::new());
        Self { defaults, report, has_tenant_key: false, rules: 0, names, tiers }
    }
}

/// Reads the domain. Also returns its name and the position of the name, if there is one.
pub(super) fn domain(top: Value<'_>, reading: &mut Reading) -> (Domain, Option<(String, Place)>) {
    let mut domain = Domain::default();
    let Some(fields) = top.fields(&FIELDS, &mut reading.report) else { return (domain, None) };
    let report = &mut reading.report;
    let name = fields.required_text("domain", "every rule file names its domain: `domain: NAME`", report);
    let name = name.map(|name| (name, fields.get("domain").map_or(top.place(), |value| value.place())));
    domain.name = name.as_ref().map(|(name, _)| name.clone()).unwrap_or_default();
    if fields.get("tenant").is_some() {
        let remedy = "name the key of the entry that names the tenant, or leave it out";
        domain.tenant = fields.required_text("tenant", remedy, report);
    }
    domain.hierarchical = fields.flag("hierarchical", report);
    if let Some(value) = fields.get("inline_limits") {
        domain.inline_limits = inline_limits(value, report);
    }
    if let Some(value) = fields.get("forward_auth") {
        domain.forward_auth = forward_auth(value, report).map(Arc::new);
    }
    reading.has_tenant_key = fields.get("tenant").is_some();
    if let Some(value) = fields.get("descriptors") {
        domain.rules = descriptor_list(value, 1, reading);
    }
    if let Some(value) = fields.get("tenants") {
        domain.tenants = tenants(value, reading);
    }
    (domain, name)
}

fn inline_limits(value: Value<'_>, report: &mut Report) -> Option<u64> {
    let fields = value.fields(&["max"], report)?;
    let max = fields.required("max", "say how many distinct limits requests may bring", report)?;
    max.whole(1..=MAX_INLINE_LIMITS, report)
}

/// Reads the tiers of tenants. A tier that no rule defines is a mistake, because it would have no effect.
fn tenants(value: Value<'_>, reading: &mut Reading) -> BTreeMap<String, String> {
    let report = &mut reading.report;
    let mut tenants = BTreeMap::new();
    for (entry, tier) in value.entries(report) {
        let Some(name) = tier.text(report) else { continue };
        if reading.tiers.contains(name) {
            tenants.insert(entry.key.as_ref().to_owned(), name.to_owned());
            continue;
        }
        let known = || reading.tiers.iter().map(String::as_str);
        report.add(tier.place(), &tier.path, || {
            let remedy = match reading.tiers.len() {
                0 => "no rule has any; add it to the tiers of a rule".to_owned(),
                _ => format!("tiers: {}{}", list(known()), did_you_mean(name, known())),
            };
            format!("no rule has a tier {}; {remedy}", quoted(name))
        });
    }
    if !reading.has_tenant_key {
        value.fault(report, NO_TENANT_KEY);
    }
    tenants
}

/// The message for tiers in a domain without a tenant key.
pub(super) const NO_TENANT_KEY: &str =
    "needs `tenant` at the top of the file: the key of the entry that names the tenant";
