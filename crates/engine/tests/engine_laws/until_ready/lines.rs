//! Several who wait for the same limit.

use std::time::Duration;

use tidegate::{Request, per_minute, per_second};

use super::{Log, limited_by, ms, wait_in_line};
use crate::support::by;

#[tokio::test(start_paused = true)]
async fn those_who_wait_pass_in_the_order_they_came() {
    let limiter = limited_by(per_second(10).burst(1));
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..20 {
        tasks.push(wait_in_line(&limiter, &log, who, Duration::from_mins(1)).await);
    }
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<_> = (0..20).map(|who| (100 * who as u64, who, true)).collect();
    assert_eq!(log.lines(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_order_holds_when_several_pass_at_once() {
    let limiter = limited_by(per_second(5).fixed_window());
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..15 {
        tasks.push(wait_in_line(&limiter, &log, who, Duration::from_mins(1)).await);
    }
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<_> = (0..15).map(|who| (1_000 * (who as u64 / 5), who, true)).collect();
    assert_eq!(log.lines(), expected);
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_later_waits_behind() {
    let limiter = limited_by(per_second(10).burst(1));
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..3 {
        tasks.push(wait_in_line(&limiter, &log, who, Duration::from_mins(1)).await);
    }
    tokio::time::sleep(ms(150)).await;
    tasks.push(wait_in_line(&limiter, &log, 3, Duration::from_mins(1)).await);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.lines(), [(0, 0, true), (100, 1, true), (200, 2, true), (300, 3, true)]);
}

#[tokio::test(start_paused = true)]
async fn whoever_runs_out_of_patience_leaves_the_line_and_holds_nobody_up() {
    let limiter = limited_by(per_second(10).burst(1));
    let log = Log::new();
    // The third runs out while others are before it; the fourth is next when it learns that it will.
    let patience = [1_000, 1_000, 50, 150, 1_000];
    let mut tasks = Vec::new();
    for (who, patience) in patience.into_iter().enumerate() {
        tasks.push(wait_in_line(&limiter, &log, who, ms(patience)).await);
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.lines(), [(0, 0, true), (50, 2, false), (100, 1, true), (100, 3, false), (200, 4, true)]);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_other_limits_are_not_in_the_way() {
    let limiter = limited_by(per_minute(1).token_bucket());
    assert!(limiter.check_now(&by("v")).allowed());
    let log = Log::new();
    let task = wait_in_line(&limiter, &log, 0, Duration::from_mins(1)).await;
    for value in ["w", "x", ""] {
        let decision = limiter.until_ready(&by(value), ms(0)).await;
        assert!(decision.allowed());
    }
    assert_eq!(log.lines(), []);
    task.await.unwrap();
    assert_eq!(log.lines(), [(60_000, 0, true)]);
}

#[tokio::test(start_paused = true)]
async fn the_line_is_by_limits_and_not_by_requests() {
    let limiter = limited_by(per_second(10).burst(1));
    assert!(limiter.check_now(&by("v")).allowed());
    let log = Log::new();
    let first = wait_in_line(&limiter, &log, 0, Duration::from_secs(1)).await;
    // A descriptor that no rule limits changes nothing.
    let (other, seen) = (limiter.clone(), log.clone());
    let second = tokio::spawn(async move {
        let request = Request::new("d", [("x", "")]).and([("k", "v")]);
        seen.add(1, other.until_ready(&request, Duration::from_secs(1)).await.allowed());
    });
    tokio::task::yield_now().await;
    let third = wait_in_line(&limiter, &log, 2, Duration::from_secs(1)).await;
    for task in [first, second, third] {
        task.await.unwrap();
    }
    assert_eq!(log.lines(), [(100, 0, true), (200, 1, true), (300, 2, true)]);
}

#[tokio::test(start_paused = true)]
async fn no_more_pass_than_the_limit_allows_however_many_wait() {
    let limiter = limited_by(per_second(20).burst(4));
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..200 {
        tasks.push(wait_in_line(&limiter, &log, who, ms(2_000)).await);
    }
    for task in tasks {
        task.await.unwrap();
    }
    let passed: Vec<_> = log.lines().into_iter().filter(|(_, _, passed)| *passed).collect();
    // 4 at once and 20 a second for 2 seconds. The last passes when everybody's patience ends.
    assert_eq!(passed.len(), 44);
    assert!(passed[..43].is_sorted());
    assert_eq!(log.lines().len(), 200);
}
