//! One limit of each kind, small enough to fill by hand.

use tidegate_core::{Algorithm, Calendar, CalendarUnit, LeakyMode, Limit, Window};

pub(crate) const PERIOD_US: u64 = 10_000_000;

pub(crate) fn limit(algorithm: Algorithm, requests: u64) -> Limit {
    Limit::new(algorithm, requests, Window::Period { us: PERIOD_US }).expect("small numbers make a limit")
}

pub(crate) fn fixed_window(requests: u64) -> Limit {
    limit(Algorithm::FixedWindow, requests)
}

pub(crate) fn sliding_window(requests: u64) -> Limit {
    limit(Algorithm::SlidingWindow, requests)
}

pub(crate) fn sub_windows(requests: u64) -> Limit {
    limit(Algorithm::SubWindows { buckets: 4 }, requests)
}

pub(crate) fn sliding_log(requests: u64) -> Limit {
    limit(Algorithm::SlidingLog, requests)
}

pub(crate) fn token_bucket(requests: u64, burst: u64) -> Limit {
    limit(Algorithm::TokenBucket { burst }, requests)
}

pub(crate) fn leaky_bucket(requests: u64, burst: u64) -> Limit {
    limit(Algorithm::LeakyBucket { burst, mode: LeakyMode::Meter }, requests)
}

pub(crate) fn queue(requests: u64, burst: u64) -> Limit {
    limit(Algorithm::LeakyBucket { burst, mode: LeakyMode::Queue }, requests)
}

pub(crate) fn concurrency(max: u64) -> Limit {
    limit(Algorithm::Concurrency, max)
}

pub(crate) fn calendar_day(requests: u64) -> Limit {
    let berlin = Calendar::new(CalendarUnit::Day, "Europe/Berlin").expect("a zone of the database");
    Limit::new(Algorithm::FixedWindow, requests, Window::Calendar(berlin)).expect("a limit")
}

/// One of each kind, concurrency apart: nothing of it is ever refunded or charged by cost alone.
pub(crate) fn charged() -> Vec<Limit> {
    vec![
        fixed_window(5),
        calendar_day(5),
        sliding_window(5),
        sub_windows(5),
        sliding_log(5),
        token_bucket(5, 5),
        // A unit takes 10/7 s: fractions of a microsecond.
        token_bucket(7, 3),
        leaky_bucket(5, 1),
        leaky_bucket(3, 4),
        queue(3, 4),
    ]
}

/// One of each kind.
pub(crate) fn every() -> Vec<Limit> {
    let mut every = charged();
    every.push(concurrency(3));
    every
}

/// How many single charges fit at one moment, for a caller that cannot hold.
pub(crate) fn fits_at_once(limit: &Limit) -> u64 {
    if limit.queues() { 1 } else { limit.burst() }
}
