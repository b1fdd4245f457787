//! `retry_after` is exact: one microsecond before it the request is denied, at it it passes.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Domain, Limiter, Micros, Request, Rule, VirtualClock};

use crate::support::{by, every_algorithm, limited_by, limiter, limiter_of};

/// Denied until just before its `retry_after`, then allowed; if it is denied at all.
fn expect_exact(limiter: &Limiter, clock: &VirtualClock, request: &Request<'_>, what: &str) {
    let Some(retry_after) = limiter.peek_now(request).retry_after().filter(|retry| *retry != Duration::MAX)
    else {
        return;
    };
    assert_eq!(limiter.check_now(request).retry_after(), Some(retry_after), "{what}");
    clock.advance_us(retry_after.as_micros() as u64 - 1);
    let before = limiter.check_now(request);
    assert!(!before.allowed(), "{what}: {retry_after:?} was too long");
    assert_eq!(before.retry_after(), Some(Duration::from_micros(1)), "{what}");
    clock.advance_us(1);
    assert!(limiter.check_now(request).allowed(), "{what}: {retry_after:?} was too short");
}

#[test]
fn for_every_algorithm() {
    for (name, limit) in every_algorithm() {
        let (limiter, clock) = limited_by(limit);
        let mut denials = 0;
        for round in 0..40_u64 {
            let request = by("v").cost(1 + round % 3);
            denials += u32::from(!limiter.peek_now(&request).allowed());
            expect_exact(&limiter, &clock, &request, name);
            limiter.check_now(&by("v"));
            clock.advance_us(round * 7_919);
        }
        assert!(denials > 5 || name == "leaky_bucket" || name == "large counts", "{name}: {denials}");
    }
}

#[test]
fn at_the_end_of_a_bucket_that_costs_a_fraction_of_a_microsecond() {
    let (limiter, clock) = limited_by(tidegate::per_second(3_000_001).burst(2));
    limiter.check_now(&by("v").cost(2));
    let denied = limiter.check_now(&by("v").cost(2));
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(1)));
    clock.advance_us(1);
    assert!(limiter.check_now(&by("v").cost(2)).allowed());
}

#[test]
fn for_calendar_windows_across_a_change_of_the_clocks() {
    // Midnights in Berlin, and how many hours the day has.
    for (midnight_s, hours) in [(1_714_514_400, 24), (1_711_839_600, 23), (1_729_980_000, 25)] {
        let (limiter, clock) = limiter(
            "
domain: d
descriptors:
  - {key: k, limits: [{requests: 2, per: day, algorithm: fixed_window, calendar: Europe/Berlin}]}
",
        );
        clock.set(Micros(midnight_s * 1_000_000));
        limiter.check_now(&by("v").cost(2));
        assert_eq!(limiter.check_now(&by("v")).retry_after(), Some(Duration::from_secs(hours * 3_600)));
        expect_exact(&limiter, &clock, &by("v"), "calendar");
    }
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(96))]

    #[test]
    fn for_any_number_of_limits_and_descriptors(
        chosen in prop::collection::vec((0..9_usize, 0..3_usize), 1..6),
        steps in prop::collection::vec((0..2_000_000_u64, 0..3_usize, 0..3_u64), 1..30),
        cost in 1..4_u64,
    ) {
        let all = every_algorithm();
        let keys = ["a", "b", "c"];
        let mut rules = keys.map(Rule::by);
        for (index, (algorithm, key)) in chosen.into_iter().enumerate() {
            rules[key] = rules[key].clone().limit(all[algorithm].1.clone().named(&index.to_string()));
        }
        let (limiter, clock) = limiter_of(rules.into_iter().fold(Domain::new("d"), Domain::rule));
        for (advance_us, key, cost) in steps {
            clock.advance_us(advance_us);
            limiter.check_now(&Request::new("d", [(keys[key], "")]).cost(cost));
        }
        let request = Request::new("d", [("a", "")]).and([("b", "")]).and([("c", "")]).cost(cost);
        expect_exact(&limiter, &clock, &request, "together");
    }
}
