//! The rules in force, as people and tools read them.

use serde_json::json;
use tidegate::Limiter;

use crate::support::{domain, limiter};

#[test]
fn the_listing_has_every_rule_in_order_with_all_it_says() {
    let (limiter, _) = limiter(
        "
domain: api
tenant: api_key
hierarchical: true
inline_limits: {max: 7}
tenants: {acme: pro}
descriptors:
  - key: api_key
    name: by key
    limits:
      - {name: steady, requests: 100, per: minute, algorithm: token_bucket, burst: 20}
      - {requests: 5000, per: day, algorithm: fixed_window, calendar: Europe/Berlin}
    tiers:
      pro: {steady: {requests: 1000, burst: 2000}}
      enterprise: {steady: unlimited}
    concurrency: {max: 3, timeout: 90s}
    on_store_error: {first: deny, after: 5s, then: local}
    enforce_percent: 25
    metadata: {team: core, pages: [1, 2]}
    descriptors:
      - {key: path, value: /health, rate_limit: {unlimited: true}}
      - {key: path, value: '/v*', shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: other, quota_mode: true, detailed_metric: true, value_to_metric: true, on_store_error: allow}
",
    );
    let listing = serde_json::to_value(limiter.listing()).expect("it serializes");
    let plain = |rule: &str| {
        json!({
            "rule": rule, "limits": [], "tiers": [], "concurrency": null, "unlimited": false,
            "shadow_mode": false, "quota_mode": false, "enforce_percent": 100, "on_store_error": "local",
            "detailed_metric": false, "value_to_metric": false, "hide_keys": false, "warn_at": [], "metadata": {},
        })
    };
    let with = |rule: &str, more: serde_json::Value| {
        let mut listing = plain(rule);
        for (key, value) in more.as_object().expect("an object") {
            listing[key] = value.clone();
        }
        listing
    };
    let expected = json!([{
        "domain": "api", "tenant": "api_key", "hierarchical": true, "inline_limits": 7,
        "rules": [
            with("by key", json!({
                "limits": [
                    "steady: token_bucket, 100 per minute, burst 20",
                    "day in Europe/Berlin: fixed_window, 5000 per day in Europe/Berlin",
                ],
                "tiers": [
                    ["enterprise", ["day in Europe/Berlin: fixed_window, 5000 per day in Europe/Berlin"]],
                    ["pro", [
                        "steady: token_bucket, 1000 per minute, burst 2000",
                        "day in Europe/Berlin: fixed_window, 5000 per day in Europe/Berlin",
                    ]],
                ],
                "concurrency": "concurrency, 3 at once, time-out 90s",
                "on_store_error": {"staged": {
                    "first": "deny", "after": {"secs": 5, "nanos": 0}, "then": "local",
                }},
                "enforce_percent": 25,
                "metadata": {"team": "core", "pages": [1, 2]},
            })),
            with("api_key/path=/health", json!({"unlimited": true})),
            with("api_key/path=/v*", json!({
                "limits": ["hour: sliding_window, 9 per hour"], "shadow_mode": true,
            })),
            with("other", json!({
                "quota_mode": true, "detailed_metric": true, "value_to_metric": true, "on_store_error": "allow",
            })),
        ],
    }]);
    assert_eq!(listing, expected, "{listing:#}");
}

#[test]
fn domains_come_in_the_order_they_were_given() {
    let limiter = Limiter::builder().domain(domain("domain: z")).domain(domain("domain: a")).build();
    let names: Vec<String> =
        limiter.expect("good rules").listing().into_iter().map(|domain| domain.domain).collect();
    assert_eq!(names, ["z", "a"]);
}

#[test]
fn a_limiter_without_rules_lists_none() {
    let limiter = Limiter::builder().memory().build().expect("no rules are good rules");
    assert!(limiter.listing().is_empty());
    assert_eq!(limiter.generation(), 1);
}
