//! How much a request takes.

use std::time::Duration;

use tidegate::{Domain, Request, Rule, per_minute};

use crate::support::{by, every_algorithm, left, limited_by, limiter_of};

#[test]
fn a_request_takes_its_cost_of_every_limit() {
    let rule = Rule::by("k").limit(per_minute(10)).limit(per_minute(20).named("wide"));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    assert!(limiter.check_now(&by("v").cost(7)).allowed());
    assert_eq!(left(&limiter, &by("v")), [3, 13]);
    assert!(!limiter.check_now(&by("v").cost(4)).allowed());
    assert!(limiter.check_now(&by("v").cost(3)).allowed());
    assert_eq!(left(&limiter, &by("v")), [0, 10]);
}

#[test]
fn a_cost_of_0_peeks_and_passes_even_at_the_limit() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limited_by(limit);
        assert!(limiter.check_now(&by("v").cost(0)).allowed(), "{name}");
        assert_eq!(limiter.stats().keys, 0, "{name}: a peek leaves nothing behind");
        while limiter.check_now(&by("v").cost(1)).allowed() && name != "large counts" {}
        let before = left(&limiter, &by("v"));
        for _ in 0..3 {
            assert!(limiter.check_now(&by("v").cost(0)).allowed(), "{name}");
        }
        assert_eq!(left(&limiter, &by("v")), before, "{name}");
    }
}

#[test]
fn peek_answers_what_check_would_and_takes_nothing() {
    for (name, limit) in every_algorithm() {
        let (limiter, clock) = limited_by(limit);
        for cost in [3, 1, 2, 1, 4, 1, 1] {
            let request = by("v").cost(cost);
            let (peeked, again) = (limiter.peek_now(&request), limiter.peek_now(&request));
            let checked = limiter.check_now(&request);
            for peeked in [peeked, again] {
                assert_eq!(format!("{peeked:?}"), format!("{checked:?}"), "{name}");
            }
            clock.advance_us(300_007);
        }
    }
}

#[test]
fn a_descriptors_own_cost_goes_before_the_requests() {
    let domain =
        Domain::new("d").rule(Rule::by("a").limit(per_minute(9))).rule(Rule::by("b").limit(per_minute(9)));
    let (limiter, _) = limiter_of(domain);
    let both = || Request::new("d", [("a", "v")]);
    let peek = both().and([("b", "v")]).cost(0);
    assert!(limiter.check_now(&both().descriptor_cost(4).and([("b", "v")]).cost(2)).allowed());
    assert_eq!(left(&limiter, &peek), [5, 7]);
    assert!(limiter.check_now(&both().and([("b", "v")]).descriptor_cost(0)).allowed());
    assert_eq!(left(&limiter, &peek), [4, 7]);
    assert!(!limiter.check_now(&both().and([("b", "v")]).descriptor_cost(8)).allowed());
    assert_eq!(left(&limiter, &peek), [4, 7]);
    // A single descriptor's own cost, which is decided on a shorter way.
    assert!(limiter.check_now(&both().descriptor_cost(4).cost(9)).allowed());
    assert_eq!(left(&limiter, &peek), [0, 7]);
}

#[test]
fn a_cost_above_the_limit_never_fits() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limited_by(limit);
        let denied = limiter.check_now(&by("v").cost(1 << 50));
        assert!(!denied.allowed(), "{name}");
        assert_eq!(denied.retry_after(), Some(Duration::MAX), "{name}");
        let whole = denied.decided_by().map(|limit| limit.limit.burst());
        assert_eq!(whole, denied.remaining(), "{name}: nothing was taken");
    }
}

#[test]
fn the_largest_cost_there_is_is_denied_and_takes_nothing() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limited_by(limit);
        let request = by("v").cost(u64::MAX).and([("k", "v")]).cost(u64::MAX);
        assert!(!limiter.check_now(&request).allowed(), "{name}");
        assert!(limiter.check_now(&by("v")).allowed(), "{name}");
    }
}
