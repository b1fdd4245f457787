//! Queues: what comes out is evenly spaced.

use std::time::Duration;

use tidegate::per_second;
use tokio::time::Instant;

use super::{Log, limited_by, ms, wait_in_line};
use crate::support::by;

async fn all_at_once(depth: u64, count: usize, patience: Duration) -> Vec<(u64, usize, bool)> {
    let limiter = limited_by(per_second(10).queue(depth));
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..count {
        tasks.push(wait_in_line(&limiter, &log, who, patience).await);
    }
    for task in tasks {
        task.await.expect("nobody panics");
    }
    log.lines()
}

#[tokio::test(start_paused = true)]
async fn a_burst_comes_out_evenly_spaced_and_in_order() {
    let expected: Vec<_> = (0..10).map(|who| (100 * who as u64, who, true)).collect();
    assert_eq!(all_at_once(10, 10, Duration::from_mins(1)).await, expected);
}

#[tokio::test(start_paused = true)]
async fn those_who_do_not_fit_into_the_queue_wait_for_a_place_in_it() {
    let expected: Vec<_> = (0..30).map(|who| (100 * who as u64, who, true)).collect();
    assert_eq!(all_at_once(3, 30, Duration::from_mins(1)).await, expected);
}

#[tokio::test(start_paused = true)]
async fn whoever_would_be_held_beyond_the_deadline_is_told_at_once_and_takes_no_place() {
    let lines = all_at_once(10, 8, ms(350)).await;
    let passed: Vec<_> = lines.iter().copied().filter(|(_, _, passed)| *passed).collect();
    assert_eq!(passed, [(0, 0, true), (100, 1, true), (200, 2, true), (300, 3, true)]);
    let denied: Vec<_> = lines.iter().copied().filter(|(_, _, passed)| !passed).collect();
    assert_eq!(denied, [(0, 4, false), (0, 5, false), (0, 6, false), (0, 7, false)]);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_told_no_learns_how_long_the_queue_is() {
    let limiter = limited_by(per_second(10).queue(10));
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..5 {
        tasks.push(wait_in_line(&limiter, &log, who, Duration::from_mins(1)).await);
    }
    let denied = limiter.until_ready(&by("v"), ms(499)).await;
    assert_eq!(denied.retry_after(), Some(ms(500)));
    let start = Instant::now();
    assert!(limiter.until_ready(&by("v"), ms(500)).await.allowed());
    assert_eq!(start.elapsed(), ms(500));
    for task in tasks {
        task.await.expect("nobody panics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_was_idle_lets_the_next_pass_at_once() {
    let limiter = limited_by(per_second(10).queue(10));
    for _ in 0..3 {
        let start = Instant::now();
        assert!(limiter.until_ready(&by("v"), ms(0)).await.allowed());
        assert_eq!(start.elapsed(), ms(0));
        tokio::time::sleep(ms(100)).await;
    }
}
