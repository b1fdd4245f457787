//! As in envoyproxy/ratelimit, denied requests may count.

use tidegate::{Defaults, Domain, Limiter, Request, Rule, VirtualClock, per_minute};

use crate::support::{by, left};

fn build(domain: Domain, defaults: Defaults) -> (Limiter, VirtualClock) {
    let clock = VirtualClock::new();
    let limiter = Limiter::builder().domain(domain).defaults(defaults).clock(clock.clone()).build();
    (limiter.expect("good rules"), clock)
}

#[test]
fn a_denied_request_takes_nothing_unless_told_to() {
    let domain = || Domain::new("d").rule(Rule::by("k").limit(per_minute(10).fixed_window()));
    let (limiter, _) = build(domain(), Defaults::default());
    assert!(limiter.check_now(&by("v").cost(8)).allowed());
    assert!(!limiter.check_now(&by("v").cost(5)).allowed());
    assert_eq!(left(&limiter, &by("v")), [2]);
    assert!(limiter.check_now(&by("v").cost(2)).allowed());

    let (limiter, clock) = build(domain(), Defaults::envoy_ratelimit());
    assert!(limiter.check_now(&by("v").cost(8)).allowed());
    let denied = limiter.check_now(&by("v").cost(5));
    assert!(!denied.allowed());
    assert_eq!(denied.remaining(), Some(0));
    assert!(!limiter.check_now(&by("v").cost(2)).allowed());
    assert!(!limiter.check_now(&by("v").cost(1)).allowed());
    // But not beyond the window.
    clock.advance_us(60_000_000);
    assert!(limiter.check_now(&by("v").cost(10)).allowed());
}

#[test]
fn every_limit_of_a_denied_request_counts() {
    let domain =
        Domain::new("d").rule(Rule::by("a").limit(per_minute(1))).rule(Rule::by("b").limit(per_minute(9)));
    let (limiter, _) = build(domain, Defaults::envoy_ratelimit());
    let both = Request::new("d", [("a", "v")]).and([("b", "v")]);
    assert!(limiter.check_now(&both).allowed());
    for _ in 0..3 {
        assert!(!limiter.check_now(&both).allowed());
    }
    assert_eq!(left(&limiter, &Request::new("d", [("b", "v")]).cost(0)), [5]);
}

#[test]
fn looking_counts_nothing_all_the_same() {
    let domain = Domain::new("d").rule(Rule::by("k").limit(per_minute(3)));
    let (limiter, _) = build(domain, Defaults::envoy_ratelimit());
    for _ in 0..5 {
        limiter.peek_now(&by("v"));
        limiter.peek_now(&by("v").cost(9));
        limiter.explain(&by("v").cost(9));
        limiter.check_now(&by("v").cost(0));
    }
    assert_eq!(left(&limiter, &by("v")), [3]);
}

#[test]
fn the_defaults_of_envoy_ratelimit_are_fixed_windows() {
    let domain = Domain::new("d").rule(Rule::by("k").limit(per_minute(3)));
    let (limiter, _) = build(domain, Defaults::envoy_ratelimit());
    let decision = limiter.check_now(&by("v"));
    let limit = decision.decided_by().expect("it has a limit").limit;
    assert_eq!(limit.to_string(), "fixed_window, 3 per minute");
}
