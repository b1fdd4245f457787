//! What was charged and not used goes back, never above full.

use proptest::prelude::*;
use tidegate::{Domain, Request, Rule, per_minute};

use crate::support::{by, every_algorithm, left, limited_by, limiter_of};

#[test]
fn a_refund_gives_the_cost_back_to_every_limit() {
    let rule = Rule::by("a").limit(per_minute(10)).limit(per_minute(20).named("wide"));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule).rule(Rule::by("b").limit(per_minute(30))));
    let request = Request::new("d", [("a", "v")]).cost(6).and([("b", "v")]).descriptor_cost(9);
    assert!(limiter.check_now(&request).allowed());
    assert!(!limiter.peek_now(&request).allowed());
    limiter.refund_now(&request);
    let peek = Request::new("d", [("a", "v")]).and([("b", "v")]).cost(0);
    assert_eq!(left(&limiter, &peek), [10, 20, 30]);
    assert!(limiter.check_now(&request).allowed());
}

#[test]
fn a_refund_never_goes_above_full() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limited_by(limit);
        let full = left(&limiter, &by("v"));
        limiter.refund_now(&by("v").cost(1_000));
        assert_eq!(left(&limiter, &by("v")), full, "{name}: nothing was charged");
        assert!(limiter.check_now(&by("v")).allowed());
        limiter.refund_now(&by("v").cost(u64::MAX));
        assert_eq!(left(&limiter, &by("v")), full, "{name}");
        let capacity = full[0];
        assert!(!limiter.check_now(&by("v").cost(capacity + 1)).allowed(), "{name}");
    }
}

#[test]
fn a_refund_of_what_no_rule_covers_does_nothing() {
    let (limiter, _) = limited_by(per_minute(3));
    limiter.refund_now(&Request::new("other", [("k", "v")]));
    limiter.refund_now(&Request::new("d", [("l", "v")]));
    limiter.refund_now(&by("v").cost(0));
    assert_eq!(limiter.stats().keys, 0);
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(128))]

    /// However charges and refunds are mixed: at one moment, no more pass than the limit holds plus
    /// what was given back.
    #[test]
    fn at_one_moment_no_more_passes_than_fits_and_was_given_back(
        algorithm in 0..9_usize,
        steps in prop::collection::vec((any::<bool>(), 1..4_u64), 1..60),
    ) {
        let (limiter, _) = limited_by(every_algorithm()[algorithm].1.clone());
        let capacity = left(&limiter, &by("v"))[0];
        let (mut taken, mut given) = (0, 0);
        for (refund, cost) in steps {
            if refund {
                limiter.refund_now(&by("v").cost(cost));
                given += cost;
            } else if limiter.check_now(&by("v").cost(cost)).allowed() {
                taken += cost;
            }
            prop_assert!(taken <= capacity + given);
            prop_assert!(left(&limiter, &by("v"))[0] <= capacity);
        }
    }
}
