//! Limits of a few requests: exact where they are written in code, and always with a true time to retry.

use std::time::Duration;

use tidegate::{
    AlgorithmName, Defaults, Domain, LimitSpec, Limiter, Request, Rule, VirtualClock, per, per_minute,
};
use tidegate::{per_hour, per_second};

use crate::support::{by, domain, limited_by, limiter_of};

fn algorithm_of(limiter: &Limiter, request: &Request<'_>) -> &'static str {
    let decision = limiter.peek_now(request);
    decision.decided_by().map_or("none", |by| by.limit.algorithm().name())
}

fn in_code(limit: LimitSpec) -> &'static str {
    algorithm_of(&limited_by(limit).0, &by("ann"))
}

#[test]
fn a_limit_in_code_of_up_to_ten_requests_is_exact_unless_it_says_otherwise() {
    assert_eq!(in_code(per_minute(10)), "sliding_log");
    assert_eq!(in_code(per_minute(11)), "sliding_window");
    assert_eq!(in_code(per_minute(10).sliding_window()), "sliding_window");
    assert_eq!(in_code(per_minute(10).fixed_window()), "fixed_window");
    assert_eq!(in_code(per_minute(10).burst(3)), "token_bucket");
}

#[test]
fn a_small_inline_limit_is_exact_and_that_of_an_envoy_descriptor_is_not() {
    let (limiter, _) = limiter_of(Domain::new("d").inline_limits(10));
    let inline = limiter.inline_limits("d", &[per_minute(10)]).expect("allowed");
    assert_eq!(algorithm_of(&limiter, &by("ann").limits(&inline)), "sliding_log");
    let envoy =
        limiter.limit_override("d", per_minute(10), ("k", "ann")).expect("allowed").expect("a domain");
    assert_eq!(algorithm_of(&limiter, &by("ann").limits(&envoy)), "sliding_window");
}

#[test]
fn in_a_rule_file_and_where_the_algorithm_is_said_small_limits_are_as_the_defaults_say() {
    let file = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 5}}]";
    assert_eq!(algorithm_of(&limiter_of(domain(file)).0, &by("ann")), "sliding_window");
    let said = Defaults { exact_up_to: 0, ..Defaults::default() };
    let buckets = Defaults { algorithm: AlgorithmName::TokenBucket, ..Defaults::default() };
    let all =
        [(said, "sliding_window"), (Defaults::envoy_ratelimit(), "fixed_window"), (buckets, "token_bucket")];
    for (defaults, expected) in all {
        let code = Domain::new("d").inline_limits(10).rule(Rule::by("k").limit(per_minute(5)));
        let limiter = Limiter::builder().domain(code).defaults(defaults).build().expect("good rules");
        let inline = limiter.inline_limits("d", &[per_minute(5)]).expect("allowed");
        assert_eq!(algorithm_of(&limiter, &by("ann")), expected);
        assert_eq!(algorithm_of(&limiter, &by("ann").limits(&inline)), expected);
    }
}

#[test]
fn a_limit_that_tiers_change_keeps_its_algorithm() {
    let tiers = Rule::by("k").limit(per_minute(5).named("steady"));
    let tiers = tiers.tier("pro", "steady", tidegate::TierLimit::Unlimited);
    let (limiter, _) = limiter_of(Domain::new("d").tenant_key("k").rule(tiers));
    assert_eq!(algorithm_of(&limiter, &by("ann")), "sliding_window");
}

/// One a second short of the time it is told, a request is denied still; then it passes.
fn retry_is_true(limiter: &Limiter, clock: &VirtualClock, what: &str) {
    let retry = limiter.check_now(&by("ann")).retry_after().expect("it is denied");
    let retry_us = u64::try_from(retry.as_micros()).expect("it ends");
    clock.advance_us(retry_us - 1);
    assert!(!limiter.check_now(&by("ann")).allowed(), "{what}: one microsecond before {retry:?}");
    clock.advance_us(1);
    assert!(limiter.check_now(&by("ann")).allowed(), "{what}: at {retry:?}");
}

#[test]
fn a_denied_request_of_a_small_limit_passes_exactly_when_it_was_told() {
    let limits = [per_second(1), per(1, Duration::from_secs(10)), per_minute(3), per_hour(1), per_hour(10)];
    for limit in limits {
        for limit in [limit.clone(), limit.sliding_window()] {
            let (limiter, clock) = limited_by(limit.clone());
            let what = format!("{limit:?}");
            for round in 0..40_u64 {
                while limiter.check_now(&by("ann")).allowed() {}
                retry_is_true(&limiter, &clock, &what);
                clock.advance_us(round * 137_731);
            }
        }
    }
}

#[test]
fn a_small_limit_in_code_lets_its_number_pass_in_every_window() {
    let (limiter, clock) = limited_by(per(1, Duration::from_secs(10)));
    let mut passed = 0;
    for _ in 0..100 {
        passed += usize::from(limiter.check_now(&by("ann")).allowed());
        clock.advance_us(1_000_000);
    }
    assert_eq!(passed, 10, "one per ten seconds, for a hundred seconds");
}
