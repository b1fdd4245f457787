//! What the lint finds, and what looks like it and is none.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::rules::file;
use tidegate::{
    Defaults, Domain, Finding, FindingKind, LimitSpec, Request, Rule, Severity, lint, per, per_minute,
};

use crate::support::limiter_of;

fn findings_under(text: &str, defaults: &Defaults) -> Vec<Finding> {
    let domain = file::load("r.yaml", text, defaults).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    lint(&[domain], defaults)
}

/// Each finding as `rule: severity: kind`.
fn told(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|found| format!("{}: {}: {}", found.rule, found.severity, found.kind)).collect()
}

/// The text of a file with these descriptors, and what is told of them.
type Row = (&'static str, &'static [&'static str]);

fn expect(top: &str, table: &[Row]) {
    for (descriptors, expected) in table {
        let text = format!("{top}\ndescriptors:\n{descriptors}");
        let mut found = findings_under(&text, &Defaults::default());
        // Numbers here are small to be short; `a_small_limit_that_is_estimated` is about that.
        found.retain(|finding| finding.kind != FindingKind::SmallEstimate);
        assert_eq!(told(&found), *expected, "{text}\n{found:#?}");
    }
}

const LIMIT: &str = "rate_limit: {unit: minute, requests_per_unit: 50}";

/// The descriptors of a file, with `LIMIT` for each `@`.
fn rows(table: &[Row]) -> Vec<(String, &'static [&'static str])> {
    table.iter().map(|(text, expected)| (text.replace('@', LIMIT), *expected)).collect()
}

fn expect_rules(top: &str, table: &[Row]) {
    for (text, expected) in rows(table) {
        expect(top, &[(Box::leak(text.into_boxed_str()), expected)]);
    }
}

#[test]
fn a_rule_that_no_request_reaches() {
    expect_rules(
        "domain: d",
        &[
            // An earlier pattern takes all.
            ("- {key: k, value: '*', @}\n- {key: k, value: 'a*', @}", &["k=a*: error: unreachable_rule"]),
            (
                "- {key: k, value: 'a*', @}\n- {key: k, value: 'ab*c', @}",
                &["k=ab*c: error: unreachable_rule"],
            ),
            ("- {key: k, value: '*', @}\n- {key: k, value: '**', @}", &["k=**: error: unreachable_rule"]),
            // Patterns come before the rule for any value, wherever it stands.
            ("- {key: k, value: '*', @}\n- {key: k, @}", &["k: error: unreachable_rule"]),
            ("- {key: k, @}\n- {key: k, value: '*', @}", &["k: error: unreachable_rule"]),
            // Below another rule, too.
            (
                "- key: a\n  descriptors: [{key: k, value: '*', @}, {key: k, value: 'a*', @}]",
                &["a/k=a*: error: unreachable_rule"],
            ),
            // The narrower pattern first, or patterns that only overlap.
            ("- {key: k, value: 'a*', @}\n- {key: k, value: '*', @}", &[]),
            ("- {key: k, value: 'a*', @}\n- {key: k, value: '*b', @}\n- {key: k, @}", &[]),
            // An exact value is looked for first.
            ("- {key: k, value: '*', @}\n- {key: k, value: a, @}", &[]),
            // Other keys, and other levels.
            ("- {key: k, value: '*', @}\n- {key: l, value: 'a*', @}\n- {key: m, @}", &[]),
            (
                "- {key: a, @, descriptors: [{key: k, value: '*', @}]}\n- {key: b, @, descriptors: [{key: k, @}]}",
                &[],
            ),
            // What stands below an unlimited rule is reached.
            ("- {key: k, rate_limit: {unlimited: true}, descriptors: [{key: l, @}]}", &[]),
        ],
    );
}

#[test]
fn a_key_that_clients_write_themselves() {
    for key in [
        "x-forwarded-for",
        "X-Forwarded-For",
        "x_forwarded_for",
        "header_x-real-ip",
        "Forwarded",
        "true-client-ip",
        "x-user-id",
        "X-Tenant-ID",
        "http_x_client_id",
    ] {
        let text = format!("domain: d\ndescriptors: [{{key: {key}, {LIMIT}}}]");
        let found = findings_under(&text, &Defaults::default());
        assert_eq!(told(&found), [format!("{key}: warning: spoofable_key")]);
    }
    for key in ["remote_address", "client_ip", "user_id", "user", "api_key", "tenant_id", "x-api-key", "ip"] {
        let text = format!("domain: d\ndescriptors: [{{key: {key}, {LIMIT}}}]");
        assert_eq!(findings_under(&text, &Defaults::default()), [], "{key}");
    }
    // A header under another name is one all the same.
    let mapped = |header: &str| {
        let text = format!("domain: d\nforward_auth: {{descriptors: [[{{key: client, header: {header}}}]]}}");
        told(&findings_under(&text, &Defaults::default()))
    };
    assert_eq!(mapped("X-Forwarded-For"), [": warning: spoofable_key"]);
    assert!(mapped("x-api-key").is_empty());
    // Several values of one key are one finding; the tenant counts, too.
    expect_rules(
        "domain: d\ntenant: x-tenant-id",
        &[(
            "- {key: x-real-ip, @}\n- {key: x-real-ip, value: a, @}",
            &[": warning: spoofable_key", "x-real-ip: warning: spoofable_key"],
        )],
    );
}

#[test]
fn a_counter_for_each_of_endlessly_many_values() {
    let unbounded: &[&str] = &["path: warning: unbounded_key"];
    expect_rules(
        "domain: d",
        &[
            ("- {key: path, @}", unbounded),
            ("- {key: ':path', @}", &[":path: warning: unbounded_key"]),
            ("- {key: User-Agent, @}", &["User-Agent: warning: unbounded_key"]),
            (
                "- {key: path, concurrency: {max: 1, timeout: 1s}}",
                &["path: warning: unbounded_key", "path: note: concurrency_only"],
            ),
            ("- {key: path, value: '/files/*', @}", &["path=/files/*: warning: unbounded_key"]),
            // The limit is further down, and the path is part of its key.
            (
                "- {key: url, descriptors: [{key: method, value: GET, @}]}",
                &["url/method=GET: warning: unbounded_key"],
            ),
            // Not hierarchical: the user's limit does not apply to what is below.
            ("- {key: user, @, descriptors: [{key: path, @}]}", &["user/path: warning: unbounded_key"]),
            // Values that are known, or that share a counter.
            ("- {key: path, value: /login, @}", &[]),
            ("- {key: path, value: '/files/*', share_threshold: true, @}", &[]),
            ("- {key: path, rate_limit: {unlimited: true}}", &[]),
            // Keys with a value for each client are what limits are for.
            ("- {key: remote_address, @}\n- {key: user, @}\n- {key: endpoint, @}\n- {key: host, @}", &[]),
        ],
    );
    expect_rules(
        "domain: d\nhierarchical: true",
        &[
            ("- {key: user, @, descriptors: [{key: path, @}]}", &[]),
            ("- {key: user, descriptors: [{key: path, @}]}", &["user/path: warning: unbounded_key"]),
            (
                "- {key: user, shadow_mode: true, @, descriptors: [{key: path, @}]}",
                &["user/path: warning: unbounded_key"],
            ),
        ],
    );
}

#[test]
fn a_series_for_each_of_too_many_values() {
    expect_rules(
        "domain: d",
        &[
            (
                "- {key: remote_address, value_to_metric: true, @}",
                &["remote_address: warning: unbounded_metric"],
            ),
            (
                "- {key: ip, descriptors: [{key: route, detailed_metric: true, @}]}",
                &["ip/route: warning: unbounded_metric"],
            ),
            ("- {key: ip, descriptors: [{key: route, value_to_metric: true, @}]}", &[]),
            ("- {key: ip, value: 10.0.0.1, value_to_metric: true, @}", &[]),
            ("- {key: plan, value_to_metric: true, detailed_metric: true, @}", &[]),
        ],
    );
}

#[test]
fn a_limit_that_never_denies() {
    let told: &[&str] = &["k: warning: never_denies"];
    expect(
        "domain: d",
        &[
            ("- {key: k, rate_limit: {unit: second, requests_per_unit: 4294967295}}", told),
            ("- {key: k, limits: [{requests: 9007199254740992, per: day}]}", told),
            ("- {key: k, rate_limit: {unit: hour, requests_per_unit: 4294967295}}", &[]),
            // A small burst is reached, however fast it refills.
            ("- {key: k, limits: [{algorithm: gcra, requests: 5000000000, per: second, burst: 10}]}", &[]),
            ("- {key: k, enforce_percent: 0, limits: [{requests: 1, per: day}]}", told),
            ("- {key: k, enforce_percent: 1, limits: [{requests: 1, per: day}]}", &[]),
            ("- {key: k, shadow_mode: true, enforce_percent: 50, limits: [{requests: 1, per: day}]}", told),
            ("- {key: k, shadow_mode: true, limits: [{requests: 1, per: day}]}", &[]),
        ],
    );
}

#[test]
fn a_limit_that_another_always_forestalls() {
    let told: &[&str] = &["k: warning: never_denies"];
    expect(
        "domain: d\ntenant: t",
        &[
            // At most 61 within any minute, 7,201 within two hours.
            (
                "- {key: k, limits: [{requests: 1, per: second}, {requests: 61, per: minute, algorithm: fixed_window}]}",
                told,
            ),
            (
                "- {key: k, limits: [{requests: 1, per: second}, {requests: 60, per: minute, algorithm: fixed_window}]}",
                &[],
            ),
            ("- {key: k, limits: [{requests: 1, per: second}, {requests: 10000, per: hour}]}", told),
            ("- {key: k, limits: [{requests: 1, per: second}, {requests: 7200, per: hour}]}", &[]),
            // The usual pair: a burst and a day.
            ("- {key: k, limits: [{requests: 10, per: second}, {requests: 100, per: minute}]}", &[]),
            ("- {key: k, limits: [{requests: 100, per: minute}, {requests: 10, per: second}]}", &[]),
            // The same in smaller numbers; of two equal ones the second is too many.
            (
                "- {key: k, limits: [{name: a, requests: 20, per: minute}, {name: b, requests: 10, per: minute}]}",
                told,
            ),
            (
                "- {key: k, limits: [{name: a, requests: 10, per: minute}, {name: b, requests: 10, per: minute}]}",
                told,
            ),
            // Buckets: by rate and by burst.
            (
                "- {key: k, limits: [{algorithm: gcra, requests: 1, per: second, burst: 5}, {algorithm: gcra, requests: 61, per: minute, burst: 5}]}",
                told,
            ),
            // Two that come to the same, written differently: one is too many, not both.
            (
                "- {key: k, limits: [{name: a, algorithm: leaky_bucket, requests: 1, per: second, burst: 5}, {name: b, algorithm: gcra, requests: 60, per: minute, burst: 5}]}",
                told,
            ),
            (
                "- {key: k, limits: [{algorithm: gcra, requests: 1, per: second, burst: 5}, {algorithm: gcra, requests: 61, per: minute, burst: 4}]}",
                &[],
            ),
            (
                "- {key: k, limits: [{algorithm: gcra, requests: 1, per: second, burst: 5}, {algorithm: gcra, requests: 59, per: minute, burst: 6}]}",
                &[],
            ),
            (
                "- {key: k, limits: [{algorithm: gcra, requests: 1, per: second, burst: 9}, {algorithm: sliding_log, requests: 70, per: minute}]}",
                told,
            ),
            (
                "- {key: k, limits: [{algorithm: gcra, requests: 1, per: second, burst: 9}, {algorithm: sliding_log, requests: 69, per: minute}]}",
                &[],
            ),
            // A tier changes one of them, or another rule stands in for it.
            (
                "- {key: k, limits: [{name: a, requests: 20, per: minute}, {name: b, requests: 10, per: minute}], tiers: {pro: {b: unlimited}}}",
                &[],
            ),
            (
                "- {key: k, limits: [{name: a, requests: 20, per: minute}, {name: b, requests: 10, per: minute}], tiers: {pro: {a: {requests: 1}}}}",
                &[],
            ),
            (
                "- {key: k, limits: [{name: a, requests: 20, per: minute}, {name: b, requests: 10, per: minute}]}\n- {key: l, rate_limit: {unlimited: true, replaces: [{name: b}]}}",
                &[],
            ),
        ],
    );
    // Where denied requests count, a denial by one limit fills the other.
    let text = "domain: d\ndescriptors: [{key: k, limits: [{name: a, requests: 20, per: minute}, {name: b, requests: 10, per: minute}]}]";
    assert_eq!(findings_under(text, &Defaults::envoy_ratelimit()), []);
}

#[test]
fn what_takes_a_line_each() {
    expect_rules(
        "domain: d",
        &[
            ("- {key: k}", &["k: warning: empty_rule"]),
            ("- {key: k, limits: []}", &["k: warning: empty_rule"]),
            ("- {key: k, descriptors: [{key: l, @}]}", &[]),
            ("- {key: k, rate_limit: {unlimited: true}}", &[]),
            ("- {key: k, concurrency: {max: 1, timeout: 1s}}", &["k: note: concurrency_only"]),
            // The file refuses `name` twice, but not the name of a `rate_limit`.
            (
                "- {key: k, rate_limit: {name: n, unit: second, requests_per_unit: 1}}\n- {key: l, rate_limit: {name: n, unit: second, requests_per_unit: 1}}",
                &["n: warning: name_twice"],
            ),
            ("- {key: k, name: l, @}\n- {key: l, @}", &["l: warning: name_twice"]),
            (
                "- {key: k, rate_limit: {unlimited: true, replaces: [{name: gone}]}}",
                &["k: warning: replaces_nothing"],
            ),
            (
                "- {key: k, rate_limit: {unlimited: true, replaces: [{name: n}]}}\n- {key: l, rate_limit: {name: n, unit: second, requests_per_unit: 1}}",
                &[],
            ),
        ],
    );
}

#[test]
fn a_finding_says_where_what_and_what_to_do() {
    let text = "domain: d\ndescriptors:\n  - key: k\n    value: '*'\n    rate_limit: {unlimited: true}\n  - key: k\n    rate_limit: {unlimited: true}\n";
    let found = findings_under(text, &Defaults::default());
    assert_eq!(
        found[0].to_string(),
        "r.yaml:6:5: error: rule k: never applies: patterns come before it, and k=* matches every value; remove one of the two [unreachable_rule]"
    );
    assert_eq!(found.len(), 1);
    let json = serde_json::to_value(&found[0]).unwrap();
    assert_eq!((json["kind"].as_str(), json["severity"].as_str()), (Some("unreachable_rule"), Some("error")));
    // Rules in code have no place.
    let found = lint(&[Domain::new("d").rule(Rule::by("path").limit(per_minute(1)))], &Defaults::default());
    assert!(
        found[0].to_string().starts_with("code: warning: rule path: has a counter for every value of path")
    );
}

#[test]
fn findings_are_in_the_order_of_domains_and_rules() {
    let one = Domain::new("one")
        .rule(Rule::by("a"))
        .rule(Rule::by("path").limit(per_minute(1)))
        .rule(Rule::by("b"));
    let found = lint(&[one, Domain::new("two").rule(Rule::by("c"))], &Defaults::default());
    let rules: Vec<_> = found.iter().map(|found| (found.domain.as_str(), found.rule.as_str())).collect();
    assert_eq!(rules, [("one", "a"), ("one", "path"), ("one", "b"), ("two", "c")]);
}

#[test]
fn the_quickstart_has_neither_errors_nor_warnings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
    let defaults = Defaults::default();
    let domains = file::load_path(&path, &defaults).unwrap();
    let found = lint(&domains, &defaults);
    assert!(found.iter().all(|found| found.severity == Severity::Note), "{found:#?}");
}

#[test]
fn many_rules_are_looked_at_in_little_time() {
    let rules = |value: &dyn Fn(usize) -> Rule| (0..50_000).map(value).fold(Domain::new("d"), Domain::rule);
    let keys = rules(&|n| Rule::by(&format!("k{n}")).limit(per_minute(1)));
    let patterns = rules(&|n| Rule::by("k").value(&format!("{n}-*")).limit(per_minute(1)));
    assert_eq!(lint(&[keys, patterns], &Defaults::default()), []);
}

fn any_limit() -> impl Strategy<Value = LimitSpec> {
    (0..6, 1..60_u64, 1..90_u64, 1..20_u64, 1..5_u32).prop_map(
        |(algorithm, requests, seconds, burst, buckets)| {
            let limit = per(requests, Duration::from_secs(seconds));
            match algorithm {
                0 => limit.fixed_window(),
                1 => limit.sliding_window(),
                2 => limit.sub_windows(buckets),
                3 => limit.sliding_log(),
                4 => limit.burst(burst),
                _ => limit.leaky_bucket().burst(burst),
            }
        },
    )
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(2_000))]

    #[test]
    fn a_limit_that_is_said_to_be_forestalled_never_denies_alone(
        one in any_limit(),
        two in any_limit(),
        steps in prop::collection::vec((0..20_000_000_u64, 1..4_u64), 1..80),
    ) {
        let domain = Domain::new("d").rule(Rule::by("k").limit(one.named("one")).limit(two.named("two")));
        let findings = lint(std::slice::from_ref(&domain), &Defaults::default());
        prop_assert!(findings.len() <= 1);
        if let Some(finding) = findings.first() {
            let forestalled = if finding.message.starts_with("limit one never denies") { "one" } else { "two" };
            let (limiter, clock) = limiter_of(domain);
            for (wait_us, cost) in steps {
                clock.advance_us(wait_us / 7 % 3_000_000 * (wait_us % 5));
                let decision = limiter.check_now(&Request::new("d", [("k", "v")]).cost(cost));
                let denied: Vec<_> = decision.limits().filter(|limit| !limit.allowed).collect();
                let alone = !denied.is_empty() && denied.iter().all(|limit| limit.name == forestalled);
                prop_assert!(!alone, "{finding}");
            }
        }
    }
}

#[test]
fn a_small_limit_that_is_estimated() {
    let of = |limit: &str, defaults: &Defaults| {
        told(&findings_under(&format!("domain: d\ndescriptors: [{{key: k, {limit}}}]"), defaults))
    };
    let small = "rate_limit: {unit: minute, requests_per_unit: 10}";
    assert_eq!(of(small, &Defaults::default()), ["k: note: small_estimate"]);
    assert!(of(small, &Defaults::envoy_ratelimit()).is_empty(), "it is a fixed window there");
    for other in [
        "rate_limit: {unit: minute, requests_per_unit: 11}",
        "limits: [{requests: 10, per: minute, algorithm: sliding_log}]",
        "limits: [{requests: 10, per: minute, algorithm: token_bucket}]",
        "rate_limit: {unlimited: true}",
    ] {
        assert!(of(other, &Defaults::default()).is_empty(), "{other}");
    }
    let by_tier = "limits: [{name: n, requests: 50, per: minute}], tiers: {free: {n: {requests: 5}}}";
    let text = format!("domain: d\ntenant: k\ndescriptors: [{{key: k, {by_tier}}}]");
    let found = findings_under(&text, &Defaults::default());
    assert_eq!(told(&found), ["k: note: small_estimate"]);
    assert!(found[0].message.starts_with("limit n of tier free of 5 per minute"), "{}", found[0].message);
    // In code a small limit is exact.
    let code = Domain::new("d").rule(Rule::by("k").limit(per_minute(10)));
    assert!(lint(&[code], &Defaults::default()).is_empty());
}
