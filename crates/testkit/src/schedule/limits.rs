//! Random limits over the whole range of numbers, with the bounds more frequent than by chance.

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::limit::{MAX_BUCKETS, MAX_LOGGED};
use tidegate_core::{Algorithm, Calendar, CalendarUnit, LeakyMode, Limit, MAX_COUNT, Window};

/// Time zones whose clocks change in different ways: at night, at midnight, by half an hour, never.
pub const ZONES: [&str; 6] =
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo", "UTC"];

/// All calendar units.
pub const CALENDAR_UNITS: [CalendarUnit; 4] =
    [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year];

const SECOND_US: u64 = 1_000_000;
const YEAR_US: u64 = 365 * 86_400 * SECOND_US;

/// Generates requests per window, or bursts, from 0 to 2^53.
pub fn counts() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0_u64),
        8 => 1_u64..=12,
        3 => 13_u64..=5_000,
        1 => Just(u64::from(u32::MAX)),
        1 => Just(MAX_COUNT),
        1 => 1..=u64::from(u32::MAX),
        1 => 1..=MAX_COUNT,
    ]
}

/// Generates window lengths from a microsecond to a year.
pub fn periods_us() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 1_u64..=3,
        3 => 4_u64..=100,
        2 => 101_u64..=10_000,
        4 => select(vec![1, 60, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400])
            .prop_map(|seconds| seconds * SECOND_US),
        1 => 1_u64..=100 * SECOND_US,
        1 => 1..=YEAR_US,
    ]
}

fn built(
    algorithms: impl Strategy<Value = Algorithm>,
    requests: impl Strategy<Value = u64>,
) -> impl Strategy<Value = Limit> {
    (algorithms, requests, periods_us())
        .prop_filter_map("numbers that make a limit", |(algorithm, requests, us)| {
            Limit::new(algorithm, requests, Window::Period { us }).ok()
        })
}

/// Generates epoch-aligned `fixed_window` limits.
pub fn fixed_window() -> impl Strategy<Value = Limit> {
    built(Just(Algorithm::FixedWindow), counts())
}

/// Generates calendar-aligned `fixed_window` limits.
///
/// # Panics
/// Panics if a zone of [`ZONES`] is missing in the time zone database.
pub fn calendar() -> impl Strategy<Value = Limit> {
    (select(&ZONES), select(&CALENDAR_UNITS), counts()).prop_map(|(zone, unit, requests)| {
        let calendar = Calendar::new(unit, zone).expect("a zone of the database");
        Limit::new(Algorithm::FixedWindow, requests, Window::Calendar(calendar)).expect("counts are in range")
    })
}

/// Generates `sliding_window` limits.
pub fn sliding_window() -> impl Strategy<Value = Limit> {
    built(Just(Algorithm::SlidingWindow), counts())
}

/// Generates `sub_windows` limits. In most of them the number of buckets does not divide the period.
pub fn sub_windows() -> impl Strategy<Value = Limit> {
    let buckets = prop_oneof![6 => 1_u32..=7, 2 => Just(60), 1 => 8_u32..=500, 1 => Just(MAX_BUCKETS)];
    built(buckets.prop_map(|buckets| Algorithm::SubWindows { buckets }), counts())
}

/// Generates `sliding_log` limits.
pub fn sliding_log() -> impl Strategy<Value = Limit> {
    built(Just(Algorithm::SlidingLog), logged())
}

/// Generates `concurrency` limits.
pub fn concurrency() -> impl Strategy<Value = Limit> {
    built(Just(Algorithm::Concurrency), logged())
}

fn logged() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0_u64), 8 => 1_u64..=12, 2 => 13..=MAX_LOGGED, 1 => Just(MAX_LOGGED)]
}

/// Generates `token_bucket` limits.
pub fn token_bucket() -> impl Strategy<Value = Limit> {
    built(counts().prop_map(|burst| Algorithm::TokenBucket { burst }), counts())
}

/// Generates `leaky_bucket` limits in meter mode.
pub fn leaky_meter() -> impl Strategy<Value = Limit> {
    leaky(LeakyMode::Meter)
}

/// Generates `leaky_bucket` limits in queue mode.
pub fn leaky_queue() -> impl Strategy<Value = Limit> {
    leaky(LeakyMode::Queue)
}

fn leaky(mode: LeakyMode) -> impl Strategy<Value = Limit> {
    built(counts().prop_map(move |burst| Algorithm::LeakyBucket { burst, mode }), counts())
}
