//! Quotas deny only together.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Limiter, Request, VirtualClock};

use crate::support::{left, limiter};

fn rules() -> (Limiter, VirtualClock) {
    limiter(
        "
domain: d
descriptors:
  - {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: token_bucket}}
  - {key: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: token_bucket}}
  - {key: c, rate_limit: {unit: second, requests_per_unit: 3, algorithm: token_bucket}}
",
    )
}

fn a() -> Request<'static> {
    Request::new("d", [("a", "")])
}

fn b() -> Request<'static> {
    Request::new("d", [("b", "")])
}

#[test]
fn a_quota_alone_denies() {
    let (limiter, _) = rules();
    assert!(limiter.check_now(&a()).allowed());
    assert!(!limiter.check_now(&a()).allowed());
}

#[test]
fn a_request_passes_while_one_of_its_quotas_does() {
    let (limiter, _) = rules();
    let both = a().and([("b", "")]);
    assert!(limiter.check_now(&b()).allowed());
    let decision = limiter.check_now(&both);
    assert!(decision.allowed());
    assert_eq!(decision.limits().map(|limit| limit.allowed).collect::<Vec<_>>(), [true, false]);
    // Now both are used up.
    assert!(!limiter.check_now(&both).allowed());
}

#[test]
fn an_ordinary_limit_denies_whatever_the_quotas_say() {
    let (limiter, _) = rules();
    let all = a().and([("b", "")]).and([("c", "")]);
    assert!(limiter.check_now(&Request::new("d", [("c", "")]).cost(3)).allowed());
    let denied = limiter.check_now(&all);
    assert!(!denied.allowed());
    assert_eq!(denied.decided_by().map(|limit| limit.rule), Some("c"));
    assert_eq!(left(&limiter, &a()), [1]);
}

#[test]
fn a_quota_that_is_over_does_not_hold_up_a_request_that_another_lets_pass() {
    let (limiter, clock) = rules();
    let all = a().and([("b", "")]).and([("c", "")]);
    assert!(limiter.check_now(&b()).allowed());
    assert!(limiter.check_now(&Request::new("d", [("c", "")]).cost(3)).allowed());
    // `b` is over for an hour, but `a` is not over at all: it is `c` that takes a third of a second.
    let denied = limiter.check_now(&all);
    assert_eq!(denied.decided_by().map(|limit| limit.rule), Some("c"));
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(333_334)));
    clock.advance_us(333_333);
    assert!(!limiter.peek_now(&all).allowed());
    clock.advance_us(1);
    assert!(limiter.check_now(&all).allowed());
}

#[test]
fn when_all_quotas_are_over_the_first_to_free_decides() {
    let (limiter, clock) = rules();
    let both = a().and([("b", "")]);
    assert!(limiter.check_now(&both).allowed());
    let denied = limiter.check_now(&both);
    assert_eq!(denied.decided_by().map(|limit| limit.rule), Some("a"));
    assert_eq!(denied.retry_after(), Some(Duration::from_mins(1)));
    clock.advance_us(59_999_999);
    assert!(!limiter.peek_now(&both).allowed());
    clock.advance_us(1);
    assert!(limiter.check_now(&both).allowed());
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(128))]

    #[test]
    fn retry_after_is_exact_whatever_is_a_quota(
        used in prop::array::uniform4((0..5_u64, 0..2_000_000_u64)),
        quotas in prop::array::uniform4(any::<bool>()),
    ) {
        let rule = |index: usize| format!(
            "  - {{key: k{index}, quota_mode: {}, rate_limit: {{unit: minute, requests_per_unit: {}, \
             algorithm: token_bucket, burst: 4}}}}\n",
            quotas[index], 7 * index + 3,
        );
        let (limiter, clock) = limiter(&format!("domain: d\ndescriptors:\n{}", (0..4).map(rule).collect::<String>()));
        let keys = ["k0", "k1", "k2", "k3"];
        for (key, (cost, advance_us)) in keys.into_iter().zip(used) {
            limiter.check_now(&Request::new("d", [(key, "")]).cost(cost.min(4)));
            clock.advance_us(advance_us);
        }
        let all = keys[1..].iter().fold(Request::new("d", [(keys[0], "")]), |all, key| all.and([(*key, "")]));
        if let Some(retry_after) = limiter.peek_now(&all).retry_after() {
            clock.advance_us(retry_after.as_micros() as u64 - 1);
            prop_assert_eq!(limiter.peek_now(&all).retry_after(), Some(Duration::from_micros(1)));
            clock.advance_us(1);
            prop_assert!(limiter.check_now(&all).allowed());
        }
    }
}
