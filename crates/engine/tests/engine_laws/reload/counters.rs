//! Counters survive a reload.

use std::time::Duration;

use tidegate::{Limiter, Request};

use super::{Rules, limit};
use crate::support::{by, left};

/// Writes the file and loads it.
fn load(rules: &Rules, limiter: &Limiter, text: &str) {
    rules.write("r.yaml", text);
    limiter.reload().unwrap_or_else(|problems| panic!("{problems}"));
}

fn start(text: &str) -> (Rules, Limiter) {
    let rules = Rules::new();
    rules.write("r.yaml", text);
    let limiter = rules.unwatched(rules.path("r.yaml"));
    (rules, limiter)
}

/// A file with this limit.
fn of(limit: &str) -> String {
    format!("domain: d\ndescriptors: [{{key: k, limits: [{{{limit}}}]}}]")
}

#[test]
fn a_reload_of_the_same_rules_changes_no_counter() {
    let (rules, limiter) = start(&limit(5));
    limiter.check_now(&by("v").cost(2));
    for _ in 0..10 {
        load(&rules, &limiter, &limit(5));
    }
    assert_eq!(left(&limiter, &by("v")), [3]);
    assert_eq!(limiter.generation(), 11);
}

#[test]
fn a_changed_number_keeps_its_counter() {
    let algorithms = [
        "fixed_window",
        "sliding_window",
        "sub_windows, buckets: 60",
        "sliding_log",
        "token_bucket",
        "token_bucket, burst: NUMBER",
        "leaky_bucket, burst: NUMBER",
    ];
    for algorithm in algorithms {
        let text = |number: u64| {
            of(&format!("requests: NUMBER, per: hour, algorithm: {algorithm}")
                .replace("NUMBER", &number.to_string()))
        };
        let (rules, limiter) = start(&text(10));
        assert!(limiter.check_now(&by("v").cost(6)).allowed());
        // Raised: what is new is there at once, what was used stays used.
        load(&rules, &limiter, &text(20));
        assert_eq!(left(&limiter, &by("v")), [14], "{algorithm}");
        // Lowered below what was used: nothing is left, and it never goes negative.
        load(&rules, &limiter, &text(4));
        assert_eq!(left(&limiter, &by("v")), [0], "{algorithm}");
        assert!(!limiter.check_now(&by("v")).allowed(), "{algorithm}");
        // A counter no charge has touched since comes back as it was or, cut to the lowered limit,
        // with no more than that used.
        load(&rules, &limiter, &text(10));
        let back = left(&limiter, &by("v"))[0];
        assert!((4..=6).contains(&back), "{algorithm}: {back}");
        // Nobody is locked out for longer than a window.
        rules.clock.advance_us(2 * 3_600_000_000);
        assert_eq!(left(&limiter, &by("v")), [10], "{algorithm}");
    }
}

#[test]
fn a_rule_that_is_removed_and_added_again_goes_on_with_its_counter() {
    let (rules, limiter) = start(&limit(5));
    limiter.check_now(&by("v").cost(5));
    load(&rules, &limiter, "domain: d\ndescriptors: [{key: other}]");
    assert!(limiter.check_now(&by("v")).allowed());
    load(&rules, &limiter, &limit(5));
    assert!(!limiter.check_now(&by("v")).allowed());
    // Not for ever: its window ends as it would have.
    load(&rules, &limiter, "domain: d");
    rules.clock.advance_us(3_600_000_000);
    load(&rules, &limiter, &limit(5));
    assert!(limiter.check_now(&by("v")).allowed());
}

#[test]
fn where_a_rule_stands_makes_no_difference() {
    let (rules, limiter) = start(&limit(5));
    limiter.check_now(&by("v").cost(2));
    let text = "
domain: d
descriptors:
  - {key: a, limits: [{requests: 1, per: second}]}
  - {key: k, value: w, shadow_mode: true, limits: [{requests: 1, per: second}]}
  - key: k
    name: renamed
    shadow_mode: true
    detailed_metric: true
    limits:
      - {name: first, requests: 9, per: minute}
      - {requests: 5, per: hour, algorithm: fixed_window}
    descriptors: [{key: b}]
";
    load(&rules, &limiter, text);
    assert_eq!(left(&limiter, &by("v")), [9, 3]);
}

#[test]
fn slots_are_held_on_under_another_time_out() {
    let text = |timeout: &str| {
        format!("domain: d\ndescriptors: [{{key: k, concurrency: {{max: 1, timeout: {timeout}}}}}]")
    };
    let (rules, limiter) = start(&text("60s"));
    let held = limiter.acquire_now(&by("v")).permit().expect("a slot").detach();
    load(&rules, &limiter, &text("90s"));
    assert!(limiter.acquire_now(&by("v")).permit().is_none(), "it is held");
    assert!(limiter.renew_now(&by("v"), held), "and its holder may renew it");
    assert_eq!(limiter.permit_timeout(&by("v")), Some(Duration::from_secs(90)));
    rules.clock.advance_us(60_000_000);
    // No more than the new time-out is left.
    load(&rules, &limiter, &text("30s"));
    assert!(limiter.acquire_now(&by("v")).permit().is_none(), "it is held");
    assert!(limiter.release_now(&by("v"), held));
    assert!(limiter.acquire_now(&by("v")).permit().is_some());
}

#[test]
fn another_kind_of_limit_begins_anew() {
    let (rules, limiter) = start(&of("requests: 5, per: hour, algorithm: fixed_window"));
    for other in [
        "requests: 5, per: hour, algorithm: sliding_window",
        "requests: 5, per: 2h, algorithm: fixed_window",
        "name: other, requests: 5, per: hour, algorithm: fixed_window",
        "requests: 5, per: day, algorithm: fixed_window, calendar: UTC",
    ] {
        load(&rules, &limiter, &of("requests: 5, per: hour, algorithm: fixed_window"));
        limiter.check_now(&by("v"));
        load(&rules, &limiter, &of(other));
        assert_eq!(left(&limiter, &by("v")), [5], "{other}");
    }
    load(&rules, &limiter, &of("requests: 5, per: hour, algorithm: fixed_window"));
    assert_eq!(left(&limiter, &by("v")), [1]);
}

#[test]
fn a_tenant_that_changes_its_tier_keeps_what_it_has_used() {
    let text = |tenants: &str| {
        format!(
            "
domain: d
tenant: k
tenants: {{{tenants}}}
descriptors:
  - key: k
    limits: [{{name: main, requests: 10, per: hour, algorithm: fixed_window}}]
    tiers: {{pro: {{main: {{requests: 100}}}}, free: {{main: {{requests: 5}}}}}}
"
        )
    };
    let (rules, limiter) = start(&text(""));
    limiter.check_now(&by("acme").cost(7));
    load(&rules, &limiter, &text("acme: pro"));
    assert_eq!(left(&limiter, &by("acme")), [93]);
    load(&rules, &limiter, &text("acme: free"));
    assert_eq!(left(&limiter, &by("acme")), [0]);
    load(&rules, &limiter, &text("other: pro"));
    assert_eq!(left(&limiter, &by("acme")), [3]);
}

#[test]
fn a_decision_keeps_the_rules_it_was_made_under() {
    let (rules, limiter) = start(&limit(5));
    let decision = limiter.check_now(&by("v"));
    load(
        &rules,
        &limiter,
        "domain: e\ndescriptors: [{key: x, name: strange, rate_limit: {unlimited: true}}]",
    );
    assert_eq!(decision.to_string(), "allowed by k (hour): 4 of 5 left");
    assert!(limiter.check_now(&Request::new("d", [("k", "v")])).decided_by().is_none());
}
