//! A descriptor of a rule file: a rule and its child rules.

use super::domain::Reading;
use super::fields::Fields;
use super::limit::{self, Limits, RateLimit};
use super::metadata;
use super::report::{Firsts, Report};
use super::store;
use super::tiers::tiers;
use super::value::Value;
use crate::rules::model::{Position, Rule};

const FIELDS: [&str; 19] = [
    "key",
    "value",
    "name",
    "rate_limit",
    "limits",
    "tiers",
    "concurrency",
    "on_store_error",
    "consistency",
    "enforce_percent",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "hide_keys",
    "warn_at",
    "metadata",
];

/// The deepest nesting of rules. Requests with more entries per descriptor are rejected anyway.
const MAX_DEPTH: usize = 32;

/// The most rules in a file.
const MAX_RULES: usize = 100_000;

/// The most percentages in `warn_at`.
const MAX_WARNINGS: usize = 8;

/// The most limits of a rule. Every request that matches the rule is charged to all of them.
const MAX_LIMITS: usize = 64;

/// Reads the rules of one level. `depth` is 1 for the top level.
pub(super) fn descriptor_list(value: Value<'_>, depth: usize, reading: &mut Reading) -> Vec<Rule> {
    let mut rules = Vec::new();
    if depth > MAX_DEPTH {
        let message = format!("descriptors are nested too deep; at most {MAX_DEPTH} levels are allowed");
        value.fault(&mut reading.report, message);
        return rules;
    }
    let mut seen = Firsts::default();
    for item in value.items(&mut reading.report) {
        reading.rules += 1;
        if reading.rules > MAX_RULES {
            if reading.rules == MAX_RULES + 1 {
                let message = format!("more than {MAX_RULES} rules; split the file into several domains");
                item.fault(&mut reading.report, message);
            }
            return rules;
        }
        let Some(rule) = rule(item, depth, reading) else { continue };
        // A rule without a key has been reported already.
        if !rule.key.is_empty()
            && let Some(first) = seen.earlier((rule.key.clone(), rule.value.clone()), item.place())
        {
            let message = "the same key and value as the descriptor on line";
            let remedy = "merge the two or change one";
            item.fault(&mut reading.report, format!("{message} {}; {remedy}", first.line));
        }
        rules.push(rule);
    }
    rules
}

fn rule(item: Value<'_>, depth: usize, reading: &mut Reading) -> Option<Rule> {
    let fields = item.fields(&FIELDS, &mut reading.report)?;
    let report = &mut reading.report;
    let mut rule = Rule::by(&key(&fields, report).unwrap_or_default());
    rule.position = Position(Some(item.place()));
    // An empty value counts as absent, as in envoyproxy/ratelimit.
    rule.value = fields.text("value", report);
    rule.concurrency = fields.get("concurrency").and_then(|value| store::concurrency(value, report));
    if let Some(value) = fields.get("on_store_error") {
        rule.on_store_error = store::on_store_error(value, report).unwrap_or_default();
    }
    if let Some(value) = fields.get("consistency") {
        store::consistency(&value, report);
    }
    rule.enforce_percent = fields.whole("enforce_percent", 0..=100, report).unwrap_or(100) as u8;
    rule.shadow_mode = fields.flag("shadow_mode", report);
    rule.quota_mode = fields.flag("quota_mode", report);
    rule.detailed_metric = fields.flag("detailed_metric", report);
    rule.value_to_metric = fields.flag("value_to_metric", report);
    rule.hide_keys = fields.flag("hide_keys", report);
    if let Some(value) = fields.get("warn_at") {
        rule.warn_at = warn_at(&value, report);
    }
    rule.share_threshold = share_threshold(&fields, rule.value.as_deref(), report);
    if let Some(value) = fields.get("metadata") {
        rule.metadata = metadata::object(&value, report);
    }
    rule.name = name(&fields, reading);
    limits(&fields, &mut rule, reading);
    if let Some(value) = fields.get("descriptors") {
        rule.rules = descriptor_list(value, depth + 1, reading);
    }
    Some(rule)
}

/// Reads the key of a rule. A `*` is rejected: envoyproxy/ratelimit matches `key_value` as one text, so that
/// a `*` in a key happens to be a wildcard there, but here it would match nothing.
fn key(fields: &Fields<'_>, report: &mut Report) -> Option<String> {
    let key = fields.required_text("key", "every descriptor names the key it matches", report)?;
    if key.contains('*') {
        let value = fields.get("key")?;
        value.fault(report, "must not contain `*`: wildcards belong in value, keys are matched exactly");
    }
    Some(key)
}

/// Reads the name of a rule, which must be unique in its domain.
fn name(fields: &Fields<'_>, reading: &mut Reading) -> Option<String> {
    let name = fields.text("name", &mut reading.report)?;
    let value = fields.get("name")?;
    if let Some(first) = reading.names.earlier(name.clone(), value.place()) {
        let message =
            format!("is the name of the rule on line {} already; give each rule its own", first.line);
        value.fault(&mut reading.report, message);
    }
    Some(name)
}

/// Reads `rate_limit`, `limits` and `tiers`.
fn limits(fields: &Fields<'_>, rule: &mut Rule, reading: &mut Reading) {
    let (defaults, report) = (reading.defaults, &mut reading.report);
    let mut limits = Limits::default();
    if let Some(value) = fields.get("rate_limit") {
        match limit::rate_limit(value, defaults, report) {
            Some(RateLimit { name, unlimited, replaces, limit }) => {
                rule.name = rule.name.take().or(name);
                (rule.unlimited, rule.replaces) = (unlimited, replaces);
                if !unlimited {
                    limits.add(&value, limit, report);
                }
            }
            None => limits.add(&value, None, report),
        }
    }
    if let Some(value) = fields.get("limits") {
        for (index, item) in value.items(report).enumerate() {
            if index == MAX_LIMITS {
                item.fault(report, format!("a rule has at most {MAX_LIMITS} limits; split the rule"));
                limits.unknown_names = true;
                break;
            }
            let limit = limit::limit(item, defaults, report);
            limits.add(&item, limit, report);
        }
        if rule.unlimited && !limits.all.is_empty() {
            value.fault(report, "would never apply, for rate_limit is unlimited; remove one of the two");
        }
    }
    if let Some(value) = fields.get("tiers") {
        rule.tiers = tiers(value, &limits, reading);
    }
    rule.limits = limits.all.into_iter().map(|limit| limit.spec).collect();
}

/// Reads the percentages of a limit at which a warning is sent. Each is listed once.
fn warn_at(value: &Value<'_>, report: &mut Report) -> Vec<u8> {
    let mut percentages = Vec::new();
    for item in value.items(report) {
        let Some(percent) = item.whole(1..=100, report).map(|percent| percent as u8) else { continue };
        if percentages.contains(&percent) {
            item.fault(report, format!("{percent} is in the list already; remove one of the two"));
        } else if percentages.len() == MAX_WARNINGS {
            item.fault(report, format!("a rule has at most {MAX_WARNINGS} percentages in warn_at"));
            break;
        } else {
            percentages.push(percent);
        }
    }
    percentages
}

fn share_threshold(fields: &Fields<'_>, value: Option<&str>, report: &mut Report) -> bool {
    let Some(flag) = fields.get("share_threshold") else { return false };
    let shared = flag.flag(report).unwrap_or(false);
    if shared && !value.is_some_and(|value| value.contains('*')) {
        flag.fault(report, "shares one counter among the values of a wildcard, so value needs a `*`");
    }
    shared
}
