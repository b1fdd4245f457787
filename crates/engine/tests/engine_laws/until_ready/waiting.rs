//! How long somebody waits who is alone.

use std::time::Duration;

use tidegate::{Domain, Request, Rule, per_hour, per_minute, per_second};
use tokio::time::Instant;

use super::{limited_by, limiter_of, ms};
use crate::support::{by, every_algorithm, left, names};

#[tokio::test(start_paused = true)]
async fn what_passes_at_once_does_not_wait() {
    let limiter = limited_by(per_second(2).token_bucket());
    let start = Instant::now();
    for _ in 0..2 {
        assert!(limiter.until_ready(&by("v"), ms(0)).await.allowed());
    }
    assert!(limiter.until_ready(&Request::new("other", [("k", "v")]), ms(0)).await.allowed());
    assert!(limiter.until_ready(&Request::new("d", [("l", "v")]), Duration::MAX).await.allowed());
    assert_eq!(start.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_exactly_until_it_passes() {
    let limiter = limited_by(per_second(8).burst(1));
    let start = Instant::now();
    for number in 0..20 {
        let decision = limiter.until_ready(&by("v"), ms(125)).await;
        assert!(decision.allowed());
        assert_eq!(start.elapsed(), ms(125) * number);
    }
}

#[tokio::test(start_paused = true)]
async fn for_every_algorithm_no_sooner_and_hardly_later_than_its_retry_after() {
    for (name, limit) in every_algorithm() {
        let limiter = limited_by(limit);
        for round in 0..30 {
            let expected = limiter.peek_now(&by("v")).retry_after().unwrap_or_default();
            let start = Instant::now();
            assert!(limiter.until_ready(&by("v"), Duration::from_mins(1)).await.allowed(), "{name}");
            let waited = start.elapsed();
            // The timer counts in milliseconds, and rounds up.
            assert!(
                waited >= expected && waited <= expected + ms(1),
                "{name} {round}: {waited:?}, {expected:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_pass_by_the_deadline_is_told_at_once_and_charged_nothing() {
    let limiter = limited_by(per_minute(1).token_bucket());
    assert!(limiter.until_ready(&by("v"), ms(0)).await.allowed());
    let start = Instant::now();
    for patience in [ms(0), ms(1), ms(59_999)] {
        let denied = limiter.until_ready(&by("v"), patience).await;
        assert!(!denied.allowed());
        assert_eq!(denied.retry_after(), Some(Duration::from_mins(1)));
    }
    assert_eq!(start.elapsed(), ms(0));
    assert!(limiter.until_ready(&by("v"), ms(60_000)).await.allowed());
    assert_eq!(start.elapsed(), ms(60_000));
}

#[tokio::test(start_paused = true)]
async fn whoever_can_never_pass_is_told_at_once() {
    let limiter = limited_by(per_minute(2));
    let start = Instant::now();
    let denied = limiter.until_ready(&by("v").cost(3), Duration::MAX).await;
    assert_eq!(denied.retry_after(), Some(Duration::MAX));
    assert_eq!(start.elapsed(), ms(0));
    assert_eq!(left(&limiter, &by("v")), [2]);
}

#[tokio::test(start_paused = true)]
async fn patience_may_be_endless() {
    let limiter = limited_by(per_hour(1).token_bucket());
    let start = Instant::now();
    for hours in 0..50 {
        assert!(limiter.until_ready(&by("v"), Duration::MAX).await.allowed());
        assert_eq!(start.elapsed(), Duration::from_hours(hours));
    }
}

#[tokio::test(start_paused = true)]
async fn no_patience_is_a_check() {
    for (name, limit) in every_algorithm() {
        let (waiting, checked) = (limited_by(limit.clone()), limited_by(limit));
        for _ in 0..12 {
            let waited = waiting.until_ready(&by("v"), ms(0)).await;
            let decision = checked.check_now(&by("v"));
            assert_eq!(waited.allowed(), decision.allowed(), "{name}");
            assert_eq!(waited.retry_after(), decision.retry_after(), "{name}");
            assert_eq!(left(&waiting, &by("v")), left(&checked, &by("v")), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_slowest_of_several_limits_is_waited_for() {
    let domain = Domain::new("d")
        .rule(Rule::by("a").limit(per_second(10).burst(1)).limit(per_second(8).queue(3).named("queue")))
        .rule(Rule::by("b").limit(per_second(4).burst(1)));
    let limiter = limiter_of(domain);
    let (a, both) = (Request::new("d", [("a", "")]), Request::new("d", [("a", "")]).and([("b", "")]));
    let start = Instant::now();
    for expected in [0, 250, 500] {
        let decision = limiter.until_ready(&both, Duration::from_secs(5)).await;
        assert!(decision.allowed());
        assert_eq!(names(&decision).len(), 3);
        assert_eq!(start.elapsed(), ms(expected));
    }
    // Without `b` it is the queue.
    for expected in [625, 750] {
        assert!(limiter.until_ready(&a, Duration::from_secs(5)).await.allowed());
        assert_eq!(start.elapsed(), ms(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refund_does_not_lengthen_a_wait() {
    let limiter = limited_by(per_second(1).token_bucket());
    assert!(limiter.check_now(&by("v")).allowed());
    let start = Instant::now();
    let waiter = limiter.clone();
    let waiting = tokio::spawn(async move { waiter.until_ready(&by("v"), ms(2_000)).await.allowed() });
    tokio::task::yield_now().await;
    limiter.refund_now(&by("v"));
    assert!(waiting.await.unwrap());
    assert!(start.elapsed() <= ms(1_000));
}
