//! How a decision reads.

use tidegate::{Domain, Limiter, Request, Rule, per_hour, per_minute, per_second};

use crate::support::{by, limited_by, limiter, limiter_of};

fn text(limiter: &Limiter, request: &Request<'_>) -> String {
    limiter.check_now(request).to_string()
}

#[test]
fn a_decision_says_who_decided_and_what_is_left() {
    let (limiter, clock) = limited_by(per_minute(2).token_bucket());
    assert_eq!(text(&limiter, &by("v")), "allowed by k (minute): 1 of 2 left");
    assert_eq!(text(&limiter, &by("v")), "allowed by k (minute): 0 of 2 left");
    assert_eq!(text(&limiter, &by("v")), "denied by k (minute): 0 of 2 left, retry after 30.0s");
    clock.advance_us(29_850_000);
    assert_eq!(text(&limiter, &by("v")), "denied by k (minute): 0 of 2 left, retry after 150.0ms");
    assert_eq!(
        text(&limiter, &by("v").cost(3)),
        "denied by k (minute): the cost is more than the limit of 2 ever holds"
    );
    assert_eq!(text(&limiter, &by("w").cost(0)), "allowed by k (minute): 2 of 2 left");
}

#[test]
fn names_stand_where_they_were_given() {
    let rule = Rule::by("k").value("x*").named("uploads").limit(per_hour(2).named("hourly").burst(1));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    assert_eq!(text(&limiter, &by("x1")), "allowed by uploads (hourly): 0 of 1 left");
    let rule = Rule::by("k").value("x*").rule(Rule::by("l").limit(per_second(3)));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    let nested = Request::new("d", [("k", "x1"), ("l", "y")]);
    assert_eq!(text(&limiter, &nested), "allowed by k=x*/l (second): 2 of 3 left");
}

#[test]
fn a_rate_limits_name_is_the_rules_too() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: k, rate_limit: {name: slow, unit: day, requests_per_unit: 2}}
  - {key: l, name: own, rate_limit: {name: slow, unit: day, requests_per_unit: 2}}
",
    );
    assert_eq!(text(&limiter, &by("v")), "allowed by slow (slow): 1 of 2 left");
    assert_eq!(text(&limiter, &Request::new("d", [("l", "v")])), "allowed by own (slow): 1 of 2 left");
}

#[test]
fn where_no_limit_applies_it_says_so() {
    let (limiter, _) = limited_by(per_minute(2));
    assert_eq!(text(&limiter, &Request::new("d", [("l", "v")])), "allowed: no limit applies");
    assert_eq!(text(&limiter, &Request::new("other", [("k", "v")])), "allowed: no limit applies");
}

#[test]
fn the_whole_of_it_shows_for_debugging() {
    let (limiter, _) = limited_by(per_minute(2).token_bucket());
    let shown = format!("{:?}", limiter.check_now(&by("v")));
    let start =
        "Decision { allowed: true, limits: [LimitStatus { descriptor: Some(0), rule: \"k\", name: \"minute\"";
    assert!(shown.starts_with(start), "{shown}");
    assert!(shown.ends_with("remaining: 1, reset_after: 30s, retry_after: None }], .. }"), "{shown}");
}
