//! Which limit decided, and what is left.

use std::time::Duration;

use tidegate::{Domain, Request, Rule, per_hour, per_minute, per_second};

use crate::support::{by, limited_by, limiter_of, names};

#[test]
fn limits_come_in_the_order_of_descriptors_rules_and_limits() {
    let domain = Domain::new("d")
        .hierarchical()
        .rule(
            Rule::by("b")
                .limit(per_hour(9).named("z"))
                .limit(per_minute(9).named("a"))
                .rule(Rule::by("c").limit(per_second(9))),
        )
        .rule(Rule::by("a").limit(per_minute(9)));
    let (limiter, _) = limiter_of(domain);
    let request = Request::new("d", [("b", ""), ("c", "")]).and([("x", "")]).and([("a", "")]);
    let decision = limiter.check_now(&request);
    assert_eq!(names(&decision), ["b (z)", "b (a)", "b/c (second)", "a (minute)"]);
    assert_eq!(decision.limits().map(|limit| limit.descriptor).collect::<Vec<_>>(), [0, 0, 0, 2].map(Some));
}

#[test]
fn the_tightest_limit_decides_what_passes() {
    let rule = Rule::by("k").limit(per_second(5)).limit(per_minute(3)).limit(per_hour(4));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    let decision = limiter.check_now(&by("v"));
    let decided = decision.decided_by().expect("it has limits");
    assert_eq!((decided.name, decided.remaining, decided.allowed), ("minute", 2, true));
    assert_eq!(decided.retry_after, None);
    assert_eq!(decision.remaining(), Some(2));
    assert_eq!(decision.retry_after(), None);
}

#[test]
fn the_limit_that_takes_longest_to_free_decides_what_does_not() {
    let rule = Rule::by("k")
        .limit(per_second(1).fixed_window())
        .limit(per_minute(1).token_bucket())
        .limit(per_hour(2).fixed_window());
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    assert!(limiter.check_now(&by("v")).allowed());
    let denied = limiter.check_now(&by("v"));
    let decided = denied.decided_by().expect("it has limits");
    assert_eq!((decided.name, decided.allowed, decided.shadow), ("minute", false, false));
    assert_eq!(decided.retry_after, Some(Duration::from_mins(1)));
    assert_eq!(denied.retry_after(), Some(Duration::from_mins(1)));
    assert_eq!(denied.remaining(), Some(0));
    let each: Vec<_> = denied.limits().map(|limit| limit.retry_after).collect();
    assert_eq!(each, [Some(Duration::from_secs(1)), Some(Duration::from_mins(1)), None]);
}

#[test]
fn what_never_fits_decides_over_what_only_takes_long() {
    let rule = Rule::by("k").limit(per_hour(1).fixed_window()).limit(per_second(0).named("ban"));
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    let denied = limiter.check_now(&by("v"));
    assert_eq!(denied.decided_by().map(|limit| limit.name), Some("ban"));
    assert_eq!(denied.retry_after(), Some(Duration::MAX));
}

#[test]
fn remaining_goes_down_to_0_and_comes_back() {
    let (limiter, clock) = limited_by(per_second(4).token_bucket());
    let remaining = || limiter.check_now(&by("v")).remaining();
    assert_eq!([remaining(), remaining(), remaining(), remaining(), remaining()], [3, 2, 1, 0, 0].map(Some));
    clock.advance_us(499_999);
    assert_eq!([remaining(), remaining()], [0, 0].map(Some));
    clock.advance_us(10_000_000);
    assert_eq!(remaining(), Some(3));
}

#[test]
fn reset_after_is_when_the_limit_is_untouched_again() {
    let (limiter, clock) = limited_by(per_second(4).token_bucket());
    limiter.check_now(&by("v").cost(3));
    let reset = |limiter: &tidegate::Limiter| {
        limiter.peek_now(&by("v").cost(0)).decided_by().expect("it has a limit").reset_after
    };
    assert_eq!(reset(&limiter), Duration::from_millis(750));
    clock.advance_us(749_999);
    assert_eq!(reset(&limiter), Duration::from_micros(1));
    clock.advance_us(1);
    assert_eq!(reset(&limiter), Duration::ZERO);
}

#[tokio::test]
async fn awaited_or_not_the_answers_are_the_same() {
    let (limiter, _) = limited_by(per_minute(3));
    let request = by("v");
    assert_eq!(limiter.check(&request).await.remaining(), Some(2));
    assert_eq!(limiter.peek(&request).await.remaining(), Some(1));
    assert_eq!(limiter.check_now(&request).remaining(), Some(1));
    limiter.refund(&request).await;
    assert_eq!(limiter.peek_now(&request).remaining(), Some(1));
}
