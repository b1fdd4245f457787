//! A request is charged to all its limits, or to none if one of them denies it.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Acquired, Domain, Request, Rule, per_hour, per_minute, per_second};

use crate::support::{by, every_algorithm, left, limited_by, limiter_of, names, passes};

#[test]
fn several_limits_of_a_rule_apply_together() {
    let rule = Rule::by("k").limit(per_second(2)).limit(per_minute(3)).limit(per_hour(9).named("slow"));
    let (limiter, clock) = limiter_of(Domain::new("d").rule(rule));
    assert_eq!(passes(&limiter, &by("v"), 9), 2);
    assert_eq!(left(&limiter, &by("v")), [0, 1, 7]);
    clock.advance_us(2_000_000);
    assert_eq!(passes(&limiter, &by("v"), 9), 1);
    assert_eq!(left(&limiter, &by("v")), [1, 0, 6]);
    let denied = limiter.check_now(&by("v"));
    assert_eq!(names(&denied), ["k (second)", "k (minute)", "k (slow)"]);
    assert_eq!(denied.limits().map(|limit| limit.allowed).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(left(&limiter, &by("v")), [1, 0, 6]);
}

#[test]
fn a_denial_by_any_limit_charges_none_of_any_algorithm() {
    for (name, limit) in every_algorithm() {
        let rule = Rule::by("k").limit(limit.named("first")).limit(per_hour(1).named("last"));
        let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
        assert!(limiter.check_now(&by("v")).allowed(), "{name}");
        let before = left(&limiter, &by("v"));
        for _ in 0..5 {
            assert!(!limiter.check_now(&by("v")).allowed(), "{name}");
        }
        assert_eq!(left(&limiter, &by("v")), before, "{name}");
    }
}

#[test]
fn concurrency_is_not_for_check() {
    let rule = Rule::by("k").limit(per_minute(3)).concurrency(1, Duration::from_mins(1));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    let Acquired::Permit(_held) = limiter.acquire_now(&by("v")) else { panic!("the first is free") };
    let decision = limiter.check_now(&by("v"));
    assert!(decision.allowed());
    assert_eq!(names(&decision), ["k (minute)"]);
    let Acquired::Denied(denied) = limiter.acquire_now(&by("v")) else { panic!("the only one is held") };
    assert_eq!(names(&denied), ["k (concurrency)"]);
    // Nor is acquire for the rates.
    assert_eq!(left(&limiter, &by("v")), [2]);
}

#[test]
fn a_queue_denies_a_check_with_the_wait_and_takes_nothing() {
    let (limiter, clock) = limited_by(per_second(10).queue(5));
    assert!(limiter.check_now(&by("v")).allowed());
    for _ in 0..9 {
        let denied = limiter.check_now(&by("v"));
        assert!(!denied.allowed());
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    }
    clock.advance_us(30_000);
    assert_eq!(limiter.check_now(&by("v")).retry_after(), Some(Duration::from_millis(70)));
    clock.advance_us(70_000);
    assert!(limiter.check_now(&by("v")).allowed());
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(64))]

    /// Each rule's limits, held against each limit alone in a limiter of its own that is charged
    /// only what passed: the same is left at every step.
    #[test]
    fn a_limit_among_others_holds_what_it_would_hold_alone(
        chosen in prop::collection::vec(0..9_usize, 1..5),
        steps in prop::collection::vec((0..3_000_000_u64, 0..4_u64), 1..40),
    ) {
        let all = every_algorithm();
        let limit = |index: usize| all[chosen[index]].1.clone().named(&index.to_string());
        let rule = (0..chosen.len()).fold(Rule::by("k"), |rule, index| rule.limit(limit(index)));
        let (together, clock) = limiter_of(Domain::new("d").rule(rule));
        let alone: Vec<_> = (0..chosen.len()).map(|index| limited_by(limit(index))).collect();
        for (advance_us, cost) in steps {
            clock.advance_us(advance_us);
            for (_, clock) in &alone {
                clock.advance_us(advance_us);
            }
            let request = Request::new("d", [("k", "v")]).cost(cost);
            let each: Vec<bool> = alone.iter().map(|(alone, _)| alone.peek_now(&request).allowed()).collect();
            let decision = together.check_now(&request);
            prop_assert_eq!(decision.allowed(), each.iter().all(|allowed| *allowed));
            if decision.allowed() {
                for (alone, _) in &alone {
                    alone.check_now(&request);
                }
            }
            let lefts: Vec<u64> = alone.iter().map(|(alone, _)| left(alone, &by("v"))[0]).collect();
            prop_assert_eq!(left(&together, &by("v")), lefts);
        }
    }
}
