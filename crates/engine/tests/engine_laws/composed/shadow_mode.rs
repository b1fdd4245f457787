//! Evaluated and counted, never enforced.

use tidegate::{Domain, Request, Rule, per_minute};

use crate::support::{by, every_algorithm, left, limiter, limiter_of};

#[test]
fn a_shadow_rule_never_denies() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limiter_of(Domain::new("d").rule(Rule::by("k").limit(limit).shadow()));
        for _ in 0..20 {
            let decision = limiter.check_now(&by("v"));
            assert!(decision.allowed(), "{name}");
            assert_eq!(decision.retry_after(), None, "{name}");
        }
        assert!(limiter.check_now(&by("v").cost(1 << 50)).allowed(), "{name}");
    }
}

#[test]
fn a_shadow_rule_counts_and_says_what_it_would_have_done() {
    let (limiter, clock) =
        limiter_of(Domain::new("d").rule(Rule::by("k").limit(per_minute(2).token_bucket()).shadow()));
    let mut seen = Vec::new();
    for _ in 0..4 {
        let decision = limiter.check_now(&by("v"));
        let limit = decision.limits().next().expect("the rule applies");
        assert!(limit.shadow);
        seen.push((limit.allowed, limit.remaining, limit.retry_after.is_some()));
    }
    assert_eq!(seen, [(true, 1, false), (true, 0, false), (false, 0, true), (false, 0, true)]);
    // What it would have denied is not counted, as if it had been.
    clock.advance_us(30_000_000);
    let decision = limiter.check_now(&by("v"));
    assert!(decision.limits().all(|limit| limit.allowed));
}

#[test]
fn a_shadow_limit_is_no_part_of_the_answer() {
    let (limiter, _) = limiter_of(Domain::new("d").rule(Rule::by("k").limit(per_minute(2)).shadow()));
    let decision = limiter.check_now(&by("v"));
    assert_eq!(decision.remaining(), None);
    assert!(decision.decided_by().is_none());
    assert_eq!(decision.to_string(), "allowed: no limit applies");
}

#[test]
fn a_shadow_denial_keeps_nothing_else_from_being_charged() {
    let domain = Domain::new("d")
        .rule(Rule::by("a").limit(per_minute(1)).shadow())
        .rule(Rule::by("b").limit(per_minute(3)));
    let (limiter, _) = limiter_of(domain);
    let both = Request::new("d", [("a", "v")]).and([("b", "v")]);
    for left_after in [2, 1, 0] {
        let decision = limiter.check_now(&both);
        assert!(decision.allowed());
        assert_eq!(decision.remaining(), Some(left_after));
    }
    let denied = limiter.check_now(&both);
    assert!(!denied.allowed());
    assert_eq!(denied.decided_by().map(|limit| limit.rule), Some("b"));
}

#[test]
fn what_an_enforced_limit_denies_is_not_charged_to_a_shadow_one() {
    let domain = Domain::new("d")
        .rule(Rule::by("a").limit(per_minute(9)).shadow())
        .rule(Rule::by("b").limit(per_minute(1)));
    let (limiter, _) = limiter_of(domain);
    let both = Request::new("d", [("a", "v")]).and([("b", "v")]);
    for _ in 0..4 {
        limiter.check_now(&both);
    }
    assert_eq!(left(&limiter, &Request::new("d", [("a", "v")]).cost(0)), [8]);
}

#[test]
fn shadow_goes_before_quota() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: a, shadow_mode: true, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
",
    );
    assert!(limiter.check_now(&Request::new("d", [("a", "")])).allowed());
    let both = Request::new("d", [("a", "")]).and([("b", "")]);
    assert!(limiter.check_now(&both).allowed());
    assert!(!limiter.check_now(&both).allowed());
}
