//! Reservations of one process.

use std::time::Duration;

use tidegate::{Domain, Limiter, Request, ReserveError, Reserved, Rule, VirtualClock, per_hour, per_minute};

use super::{MINUTE, remaining, reserve, settle};
use crate::support::{by, every_algorithm, left, limited_by, limiter, limiter_of};

#[test]
fn less_than_the_estimate_gives_the_rest_back() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limited_by(limit);
        let full = left(&limiter, &by("v"))[0];
        let estimate = if name == "a queue" { 1 } else { full };
        let reservation = reserve(&limiter, &by("v").cost(estimate));
        assert_eq!(reservation.decision.remaining(), Some(0), "{name}");
        let settled = settle(&limiter, &reservation, 0);
        assert_eq!((settled.estimate, settled.cost), (estimate, 0), "{name}");
        assert_eq!(remaining(&settled), [full], "{name}");
        assert_eq!(left(&limiter, &by("v")), [full], "{name}");
    }
}

#[test]
fn more_than_the_estimate_is_taken_into_debt_and_later_requests_wait_for_it() {
    for (name, limit) in every_algorithm() {
        let (limiter, clock) = limited_by(limit);
        let full = left(&limiter, &by("v"))[0];
        let reservation = reserve(&limiter, &by("v"));
        let settled = settle(&limiter, &reservation, full + 3);
        assert_eq!(remaining(&settled), [0], "{name}");
        let denied = limiter.check_now(&by("v"));
        let wait = denied.retry_after().unwrap_or_else(|| panic!("{name} has room"));
        assert!(wait > Duration::ZERO && wait < Duration::from_mins(1), "{name}: {wait:?}");
        clock.advance_us(wait.as_micros() as u64 - 1);
        assert!(!limiter.check_now(&by("v")).allowed(), "{name}");
        clock.advance_us(1);
        assert!(limiter.check_now(&by("v")).allowed(), "{name}");
    }
}

#[test]
fn exactly_the_estimate_changes_nothing() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limited_by(limit);
        let reservation = reserve(&limiter, &by("v"));
        let before = left(&limiter, &by("v"));
        assert_eq!(remaining(&settle(&limiter, &reservation, 1)), before, "{name}");
        assert_eq!(left(&limiter, &by("v")), before, "{name}");
    }
}

#[test]
fn a_reservation_is_settled_once() {
    let (limiter, _) = limited_by(per_minute(10));
    let reservation = reserve(&limiter, &by("v").cost(8));
    settle(&limiter, &reservation, 5);
    for cost in [0, 5, 100] {
        assert!(limiter.settle_now(&reservation.id.to_string(), cost).is_none());
    }
    assert_eq!(left(&limiter, &by("v")), [5]);
    assert_eq!(limiter.reservations(), 0);
}

#[test]
fn nobody_settles_what_never_was() {
    let (limiter, _) = limited_by(per_minute(10));
    let known = reserve(&limiter, &by("v").cost(8)).id.to_string();
    assert_eq!(known.len(), 22, "128 bits in base64url");
    let mut other = known.clone().into_bytes();
    other[0] = if other[0] == b'A' { b'B' } else { b'A' };
    let other = String::from_utf8(other).expect("base64url");
    for id in ["", "*", "AAAA", &other, &format!("{known}A"), &format!("{known}=="), &known[..21]] {
        assert!(limiter.settle_now(id, 0).is_none(), "{id}");
    }
    assert_eq!(left(&limiter, &by("v")), [2]);
}

#[test]
fn after_its_time_the_estimate_stays() {
    let (limiter, clock) = limited_by(per_hour(10).fixed_window());
    let reservation = reserve(&limiter, &by("v").cost(8));
    assert_eq!(reservation.expires_at, limiter.now().plus(60_000_000));
    let other = reserve(&limiter, &by("v").cost(1));
    clock.advance_us(59_999_999);
    settle(&limiter, &other, 0);
    clock.advance_us(1);
    assert!(limiter.settle_now(&reservation.id.to_string(), 0).is_none());
    assert_eq!(left(&limiter, &by("v")), [2]);
}

#[test]
fn a_denied_estimate_takes_nothing_and_keeps_nothing() {
    let rule = Rule::by("a").limit(per_minute(10)).limit(per_hour(5));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule).rule(Rule::by("b").limit(per_minute(30))));
    let request = Request::new("d", [("a", "v")]).and([("b", "v")]).cost(6);
    let Ok(Reserved::Denied(decision)) = limiter.reserve_now(&request, MINUTE) else { panic!("5 < 6") };
    assert!(!decision.allowed());
    assert_eq!(decision.decided_by().map(|limit| limit.name), Some("hour"));
    assert_eq!(left(&limiter, &request), [10, 5, 30]);
    assert_eq!(limiter.reservations(), 0);
}

#[test]
fn a_cost_of_ones_own_is_charged_at_once_and_left_alone() {
    let (limiter, _) = limiter_of(
        Domain::new("d")
            .rule(Rule::by("tokens").limit(per_minute(1_000)))
            .rule(Rule::by("calls").limit(per_minute(10))),
    );
    let request = Request::new("d", [("tokens", "v")]).cost(400).and([("calls", "v")]).descriptor_cost(1);
    let peek = Request::new("d", [("tokens", "v")]).and([("calls", "v")]);
    let reservation = reserve(&limiter, &request);
    assert_eq!(left(&limiter, &peek), [600, 9]);
    assert_eq!(remaining(&settle(&limiter, &reservation, 150)), [850, 9]);
    let reservation = reserve(&limiter, &request);
    assert_eq!(remaining(&settle(&limiter, &reservation, 700)), [150, 8]);
}

#[test]
fn an_estimate_of_nothing_is_settled_like_any_other() {
    let (limiter, _) = limited_by(per_minute(10));
    let reservation = reserve(&limiter, &by("v").cost(0));
    assert_eq!(left(&limiter, &by("v")), [10]);
    assert_eq!(remaining(&settle(&limiter, &reservation, 4)), [6]);
}

#[test]
fn limits_that_were_not_charged_are_left_alone() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - key: k
    limits: [{requests: 100, per: hour}]
  - key: watched
    shadow_mode: true
    limits: [{requests: 5, per: hour, algorithm: fixed_window}]
",
    );
    let request = Request::new("d", [("k", "v")]).and([("watched", "v")]).cost(8);
    let reservation = reserve(&limiter, &request);
    assert_eq!(left(&limiter, &request), [92, 5], "a denial in shadow is not charged");
    assert_eq!(remaining(&settle(&limiter, &reservation, 2)), [98, 5]);
    let reservation = reserve(&limiter, &request);
    assert_eq!(remaining(&settle(&limiter, &reservation, 20)), [78, 5]);
}

#[test]
fn where_no_limit_applies_there_is_nothing_to_settle_and_it_is_settled() {
    let (limiter, _) = limited_by(per_minute(10));
    let reservation = reserve(&limiter, &Request::new("d", [("other", "v")]).cost(3));
    assert_eq!(remaining(&settle(&limiter, &reservation, 1)), [0_u64; 0]);
}

#[test]
fn a_repeated_descriptor_is_settled_as_often() {
    let (limiter, _) = limited_by(per_minute(10));
    let twice = by("v").and([("k", "v")]).cost(4);
    let reservation = reserve(&limiter, &twice);
    assert_eq!(left(&limiter, &by("v")), [2]);
    settle(&limiter, &reservation, 1);
    assert_eq!(left(&limiter, &by("v")), [8]);
}

#[test]
fn limits_that_a_request_brought_are_settled_by_what_they_were() {
    let (limiter, _) = limiter_of(Domain::new("d").inline_limits(1));
    let limits = limiter.inline_limits("d", &[per_minute(10), per_hour(50).burst(20).named("slow")]);
    let limits = limits.expect("the domain allows it");
    assert_eq!(limits.specs().len(), 2);
    let request = by("v").limits(&limits).cost(6);
    let reservation = reserve(&limiter, &request);
    let settled = settle(&limiter, &reservation, 2);
    let names: Vec<_> =
        settled.decision.limits().map(|limit| (limit.rule, limit.name, limit.remaining)).collect();
    assert_eq!(names, [("inline", "minute", 8), ("inline", "slow", 18)]);
    assert_eq!(left(&limiter, &by("v").limits(&limits)), [8, 18]);
}

#[test]
fn at_the_bound_nothing_more_is_reserved_until_one_is_settled_or_expires() {
    let clock = VirtualClock::new();
    let domain = Domain::new("d").rule(Rule::by("k").limit(per_hour(100).fixed_window()));
    let builder = Limiter::builder().domain(domain).clock(clock.clone()).max_reservations(2);
    let limiter = builder.build().expect("good rules");
    let (first, _second) = (reserve(&limiter, &by("v")), reserve(&limiter, &by("v")));
    let full = limiter.reserve_now(&by("v"), MINUTE).err();
    assert_eq!(full, Some(ReserveError::Full { most: 2 }));
    assert_eq!(left(&limiter, &by("v")), [98], "what was refused was not charged");
    settle(&limiter, &first, 1);
    reserve(&limiter, &by("v"));
    clock.advance_us(60_000_000);
    reserve(&limiter, &by("v"));
    reserve(&limiter, &by("v"));
    assert!(limiter.reserve_now(&by("v"), MINUTE).is_err());
    // A denial needs no place, and leaves none taken.
    settle(&limiter, &reserve_after(&limiter, &clock), 1);
    for _ in 0..5 {
        assert!(matches!(limiter.reserve_now(&by("v").cost(101), MINUTE), Ok(Reserved::Denied(_))));
    }
    reserve(&limiter, &by("v"));
}

#[test]
fn texts_that_are_too_long_to_be_kept_are_refused_and_not_charged() {
    let (limiter, _) = limited_by(per_hour(100).fixed_window());
    let long = "v".repeat(17 * 1024);
    let refused = limiter.reserve_now(&by(&long), MINUTE).err();
    assert!(matches!(refused, Some(ReserveError::TooLarge { bytes: 17_408.., most: 16_384 })), "{refused:?}");
    let many: Vec<_> = (0..400).map(|_| ("k", "v")).collect();
    let crowd = by("v").and(many).cost(3);
    assert!(matches!(limiter.reserve_now(&crowd, MINUTE), Err(ReserveError::TooLarge { .. })));
    assert_eq!([left(&limiter, &by(&long)), left(&limiter, &by("v"))], [[100], [100]]);
    assert_eq!(limiter.reservations(), 0);
    // Where no limit applies there is nothing to correct, and nothing of it is kept.
    let unlimited = Request::new("d", [("other", long.as_str())]).cost(3);
    for _ in 0..1_000 {
        let settled = settle(&limiter, &reserve(&limiter, &unlimited), 1);
        assert_eq!((settled.estimate, settled.cost, remaining(&settled)), (3, 1, vec![]));
        reserve(&limiter, &unlimited);
    }
    assert_eq!((limiter.reservations(), limiter.reservation_bytes()), (0, 0));
}

#[test]
fn a_reservation_that_no_limit_applies_to_is_settled_until_it_ends() {
    let (limiter, clock) = limited_by(per_hour(100).fixed_window());
    for estimate in [0, 1, 7_000_000, 1 << 53] {
        let unlimited = Request::new("d", [("other", "v")]).cost(estimate);
        let reservation = reserve(&limiter, &unlimited);
        assert_eq!(settle(&limiter, &reservation, 5).estimate, estimate);
        clock.advance_us(60_000_000);
        assert!(limiter.settle_now(&reservation.id.to_string(), 5).is_none(), "its time is over");
    }
}

/// A limiter that keeps at most so many reservations, in two domains.
fn bounded(most: usize) -> Limiter {
    let domain = |name| Domain::new(name).rule(Rule::by("k").limit(per_hour(1 << 50)));
    let builder = Limiter::builder().domain(domain("d")).domain(domain("e")).max_reservations(most);
    builder.clock(VirtualClock::new()).build().expect("good rules")
}

fn reserves(limiter: &Limiter, request: &Request<'_>) -> bool {
    matches!(limiter.reserve_now(request, MINUTE), Ok(Reserved::Reservation(_)))
}

#[test]
fn whoever_reserves_without_end_is_refused_and_others_are_not() {
    let limiter = bounded(20_000);
    // Cost 0 takes nothing of a limit, but a place.
    let greedy = by("greedy").cost(0);
    let got = (0..20_000).filter(|_| reserves(&limiter, &greedy)).count();
    assert_eq!(got, 196, "a hundredth of what is left to the domain");
    let refused = limiter.reserve_now(&greedy, MINUTE).expect_err("it is full");
    assert_eq!(refused, ReserveError::FullOfHolder { count: 196 });
    for other in 0..100 {
        assert!(reserves(&limiter, &by(&other.to_string())), "{other}");
    }
    // Many who are greedy together leave room for those who hold little.
    for name in 0..150 {
        let name = format!("greedy-{name}");
        while reserves(&limiter, &by(&name)) {}
    }
    for other in 0..100 {
        assert!(reserves(&limiter, &by(&format!("modest-{other}"))), "{other}");
    }
}

#[test]
fn a_domain_whose_clients_make_up_names_leaves_half_to_the_others() {
    let limiter = bounded(2_000);
    let got = (0..4_000).filter(|name: &u32| reserves(&limiter, &by(&name.to_string()))).count();
    assert_eq!(got, 1_000);
    let refused = limiter.reserve_now(&by("another"), MINUTE).expect_err("the domain is full");
    assert_eq!(refused, ReserveError::FullOfDomain { count: 1_000 });
    let elsewhere = |name: u32| reserves(&limiter, &Request::new("e", [("k", &*name.to_string())]));
    assert_eq!((0..100).filter(|name| elsewhere(*name)).count(), 100);
}

#[test]
fn all_texts_together_are_bounded_too() {
    let clock = VirtualClock::new();
    let domain = Domain::new("d").rule(Rule::by("k").limit(per_hour(100).fixed_window()));
    let builder = Limiter::builder().domain(domain).clock(clock.clone()).max_reservations(40);
    let limiter = builder.build().expect("good rules");
    // 512 bytes for each of 40: two of these, and not three.
    let long = "v".repeat(9 * 1024);
    let (first, _second) = (reserve(&limiter, &by(&long)), reserve(&limiter, &by(&long)));
    let full = limiter.reserve_now(&by(&long), MINUTE).err();
    assert_eq!(full, Some(ReserveError::FullOfBytes { most: 40 * 512 }));
    assert_eq!(left(&limiter, &by(&long)), [98], "what was refused was not charged");
    settle(&limiter, &first, 1);
    reserve(&limiter, &by(&long));
    clock.advance_us(60_000_000);
    reserve(&limiter, &by(&long));
    reserve(&limiter, &by(&long));
}

fn reserve_after(limiter: &Limiter, clock: &VirtualClock) -> tidegate::Reservation {
    clock.advance_us(60_000_000);
    reserve(limiter, &by("v"))
}

#[test]
fn what_expired_makes_room_by_itself() {
    let (limiter, clock) = limited_by(per_minute(10));
    for _ in 0..5 {
        reserve(&limiter, &by("v"));
    }
    clock.advance_us(60_000_000);
    crate::support::wait_until("they are swept", || limiter.reservations() == 0);
}

#[test]
fn slots_are_not_touched() {
    let rule = Rule::by("k").limit(per_minute(10)).concurrency(1, MINUTE);
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    let permit = limiter.acquire_now(&by("v")).permit().expect("it is free");
    let reservation = reserve(&limiter, &by("v").cost(5));
    settle(&limiter, &reservation, 2);
    assert!(limiter.acquire_now(&by("v")).permit().is_none());
    drop(permit);
    assert!(limiter.acquire_now(&by("v")).permit().is_some());
}

#[tokio::test]
async fn with_await_it_is_the_same() {
    let (limiter, _) = limited_by(per_minute(10));
    let reserved = limiter.reserve(&by("v").cost(8), MINUTE).await.expect("there is room");
    let Reserved::Reservation(reservation) = reserved else { panic!("8 of 10") };
    let id = reservation.id.to_string();
    let settled = limiter.settle(&id, 3).await.expect("memory never fails").expect("it is there");
    assert_eq!(remaining(&settled), [7]);
    assert!(limiter.settle(&id, 3).await.expect("memory never fails").is_none());
}
