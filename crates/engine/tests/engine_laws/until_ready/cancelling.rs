//! Somebody who waits may stop waiting: their future is dropped.

use std::time::Duration;

use tidegate::{Domain, Limiter, Request, Rule, per_hour, per_second};
use tokio::time::Instant;

use super::{Log, TokioClock, limited_by, limiter_of, ms, wait_in_line};
use crate::support::{by, left};

#[tokio::test(start_paused = true)]
async fn a_place_in_a_queue_is_given_back() {
    let limiter = limited_by(per_second(10).queue(10));
    assert!(limiter.check_now(&by("v")).allowed());
    let request = by("v");
    let start = Instant::now();
    // Held for 100 ms, and given up after 50.
    let held = limiter.until_ready(&request, Duration::from_secs(1));
    assert!(tokio::time::timeout(ms(50), held).await.is_err());
    assert!(limiter.until_ready(&request, Duration::from_secs(1)).await.allowed());
    assert_eq!(start.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_place_amid_a_queue_is_given_back_and_the_rate_is_kept() {
    let limiter = limited_by(per_second(10).queue(20));
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..10 {
        tasks.push(wait_in_line(&limiter, &log, who, Duration::from_mins(1)).await);
    }
    tokio::time::sleep(ms(50)).await;
    for index in [7, 4, 3] {
        tasks.remove(index).abort();
    }
    tokio::task::yield_now().await;
    for who in 10..20 {
        tasks.push(wait_in_line(&limiter, &log, who, Duration::from_mins(1)).await);
    }
    for task in tasks {
        task.await.unwrap();
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 17);
    for (count, (at_ms, _, passed)) in lines.iter().enumerate() {
        assert!(passed);
        assert!(count as u64 <= at_ms / 100, "{} by {at_ms} ms", count + 1);
    }
    // All places were used but those that had gone by.
    assert_eq!(lines.last().map(|(at_ms, _, _)| *at_ms), Some(1_600));
}

#[tokio::test(start_paused = true)]
async fn the_next_in_line_moves_up() {
    let limiter = limited_by(per_second(10).burst(1));
    assert!(limiter.check_now(&by("v")).allowed());
    let log = Log::new();
    let mut tasks = Vec::new();
    for who in 0..6 {
        tasks.push(wait_in_line(&limiter, &log, who, Duration::from_mins(1)).await);
    }
    tokio::time::sleep(ms(50)).await;
    // The first in line, who waits for the limit, and one who waits for the line.
    tasks.remove(3).abort();
    tasks.remove(0).abort();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.lines(), [(100, 1, true), (200, 2, true), (300, 4, true), (400, 5, true)]);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_limit_has_taken_nothing_of_it() {
    let limiter = limited_by(per_hour(5));
    assert!(limiter.check_now(&by("v").cost(3)).allowed());
    let request = by("v").cost(4);
    let waiting = limiter.until_ready(&request, Duration::MAX);
    assert!(tokio::time::timeout(ms(50), waiting).await.is_err());
    assert_eq!(left(&limiter, &by("v")), [2]);
}

#[tokio::test(start_paused = true)]
async fn only_what_was_taken_is_given_back() {
    let domain = Domain::new("d")
        .rule(Rule::by("k").limit(per_second(10).queue(10)))
        .rule(Rule::by("l").limit(per_hour(1)).shadow());
    let limiter = limiter_of(domain);
    let both = by("v").and([("l", "v")]);
    assert!(limiter.check_now(&both).allowed());
    // The shadow limit is used up, so whoever is held now has taken none of it.
    let held = limiter.until_ready(&both, Duration::from_secs(1));
    assert!(tokio::time::timeout(ms(50), held).await.is_err());
    assert_eq!(left(&limiter, &Request::new("d", [("l", "v")])), [0]);
}

#[tokio::test(start_paused = true)]
async fn it_is_given_back_to_the_limits_it_was_taken_of_even_if_the_rules_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let write = |limit: &str| {
        let text = format!("domain: d\ndescriptors: [{{key: k, limits: [{{requests: 10, {limit}}}]}}]");
        std::fs::write(&file, text).unwrap();
    };
    write("per: second, algorithm: leaky_bucket, mode: queue, burst: 9");
    let limiter =
        Limiter::builder().rules(&file).watch(false).clock(TokioClock::new()).build().expect("good rules");
    assert!(limiter.check_now(&by("v")).allowed());
    let request = by("v");
    let mut held = Box::pin(limiter.until_ready(&request, Duration::from_secs(1)));
    assert!(tokio::time::timeout(ms(50), &mut held).await.is_err());

    write("per: hour, algorithm: fixed_window");
    limiter.reload().expect("good rules");
    assert!(limiter.check_now(&by("v").cost(4)).allowed());
    drop(held);
    assert_eq!(left(&limiter, &by("v")), [6]);

    // Back in the queue: only the first has passed.
    write("per: second, algorithm: leaky_bucket, mode: queue, burst: 9");
    limiter.reload().expect("good rules");
    assert_eq!(limiter.check_now(&by("v")).retry_after(), Some(ms(50)));
}
