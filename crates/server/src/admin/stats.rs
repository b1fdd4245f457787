//! `/rlconfig` and `/stats`, in the text form of envoyproxy/ratelimit.

use std::fmt::Write;

use axum::extract::State;
use tidegate::{DomainListing, RuleListing};

use super::Admin;

/// Lists the limits in force, one per line:
/// `domain.key_value: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false`.
pub(super) async fn rlconfig(State(admin): State<Admin>) -> String {
    let mut text = String::new();
    for domain in admin.limiter.listing() {
        for rule in &domain.rules {
            write_rule(&mut text, &domain, rule);
        }
    }
    text
}

fn write_rule(text: &mut String, domain: &DomainListing, rule: &RuleListing) {
    let (name, path) = (&domain.domain, &rule.path);
    let modes = format!("shadow_mode: {}, quota_mode: {}", rule.shadow_mode, rule.quota_mode);
    // Writing to a String cannot fail.
    if rule.unlimited {
        let _ = writeln!(text, "{name}.{path}: unlimited=true, {modes}");
    }
    for limit in &rule.rates {
        let (unit, requests) = (limit.window.to_uppercase(), limit.requests);
        let algorithm = limit.algorithm;
        let _ = writeln!(
            text,
            "{name}.{path}: unit={unit} requests_per_unit={requests}, {modes}, \
             algorithm: {algorithm}, name: {}",
            limit.name
        );
    }
}

/// Lists counts, as lines of `name: value`.
pub(super) async fn stats(State(admin): State<Admin>) -> String {
    let mut lines = Vec::new();
    for rule in admin.limiter.counts() {
        let path = format!("ratelimit.service.rate_limit.{}.{}", rule.domain, rule.path);
        let counts = &rule.counts;
        lines.extend([
            format!("{path}.near_limit: {}", counts.near_limit),
            format!("{path}.over_limit: {}", counts.over_limit),
            format!("{path}.shadow_mode: {}", counts.shadow_mode),
            format!("{path}.total_hits: {}", counts.total_hits),
            format!("{path}.within_limit: {}", counts.within_limit),
        ]);
    }
    let errors = admin.metrics.refused.get();
    lines.extend([
        format!("ratelimit.service.call.should_rate_limit.service_error: {errors}"),
        format!("ratelimit.service.config_load_error: {}", admin.limiter.refusals()),
        format!("ratelimit.service.config_load_success: {}", admin.limiter.generation()),
    ]);
    lines.sort();
    lines.push(String::new());
    lines.join("\n")
}
