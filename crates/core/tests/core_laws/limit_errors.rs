//! The numbers that are rejected as a limit, and the error messages.

use tidegate_core::limit::{MAX_BUCKETS, MAX_LOGGED, MAX_PERIOD_US};
use tidegate_core::{
    Algorithm, Calendar, CalendarUnit, LeakyMode, Limit, LimitError, LimitField, MAX_COUNT, Window,
};

fn refusal(algorithm: Algorithm, requests: u64, window: Window) -> (LimitError, String) {
    let error = Limit::new(algorithm, requests, window).unwrap_err();
    let message = error.to_string();
    (error, message)
}

const SECOND: Window = Window::seconds(1);

fn leaky(burst: u64) -> Algorithm {
    Algorithm::LeakyBucket { burst, mode: LeakyMode::Meter }
}

#[test]
fn counts_go_up_to_two_to_the_53() {
    let (error, message) = refusal(Algorithm::FixedWindow, MAX_COUNT + 1, SECOND);
    assert_eq!(error, LimitError::TooMany { field: LimitField::Requests, found: MAX_COUNT + 1 });
    assert_eq!(message, "requests must be at most 9007199254740992 (2^53), got 9007199254740993");
    let (error, message) = refusal(Algorithm::TokenBucket { burst: MAX_COUNT + 1 }, 1, SECOND);
    assert_eq!(error, LimitError::TooMany { field: LimitField::Burst, found: MAX_COUNT + 1 });
    assert_eq!(message, "burst must be at most 9007199254740992 (2^53), got 9007199254740993");
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, leaky(MAX_COUNT)] {
        assert!(Limit::new(algorithm, MAX_COUNT, SECOND).is_ok());
    }
}

#[test]
fn windows_and_bursts_are_at_least_one() {
    let (error, message) = refusal(Algorithm::SlidingWindow, 1, Window::Period { us: 0 });
    assert_eq!(error, LimitError::Zero { field: LimitField::Window });
    assert_eq!(message, "the window must be at least 1, got 0");
    for algorithm in [Algorithm::TokenBucket { burst: 0 }, leaky(0)] {
        let (error, message) = refusal(algorithm, 1, SECOND);
        assert_eq!(error, LimitError::Zero { field: LimitField::Burst });
        assert_eq!(message, "burst must be at least 1, got 0");
    }
}

#[test]
fn windows_last_ten_years_at_most() {
    let (error, message) = refusal(Algorithm::SlidingWindow, 1, Window::Period { us: MAX_PERIOD_US + 1 });
    assert_eq!(error, LimitError::WindowTooLong { found_us: MAX_PERIOD_US + 1 });
    assert_eq!(message, "the window must be at most 10 years, got 315360000000001 microseconds");
    assert!(Limit::new(Algorithm::SlidingWindow, 1, Window::Period { us: MAX_PERIOD_US }).is_ok());
}

#[test]
fn a_full_burst_drains_within_ten_years() {
    let (error, message) = refusal(Algorithm::TokenBucket { burst: 315_360_001 }, 1, SECOND);
    assert_eq!(error, LimitError::BurstTooLarge { burst: 315_360_001, requests: 1 });
    assert_eq!(
        message,
        "a burst of 315360001 at 1 per window takes over 10 years to drain; lower burst or raise requests"
    );
    assert!(Limit::new(Algorithm::TokenBucket { burst: 315_360_000 }, 1, SECOND).is_ok());
    assert!(Limit::new(leaky(315_360_001), 2, SECOND).is_ok());
    assert!(Limit::new(leaky(MAX_COUNT), 0, SECOND).is_ok(), "a ban has no rate to drain at");
}

#[test]
fn buckets_are_between_one_and_ten_thousand() {
    for found in [0, MAX_BUCKETS + 1, u32::MAX] {
        let (error, message) = refusal(Algorithm::SubWindows { buckets: found }, 1, SECOND);
        assert_eq!(error, LimitError::Buckets { found });
        assert_eq!(message, format!("buckets must be between 1 and 10000, got {found}"));
    }
    for buckets in [1, MAX_BUCKETS] {
        assert!(Limit::new(Algorithm::SubWindows { buckets }, 1, SECOND).is_ok());
    }
}

#[test]
fn what_remembers_each_request_takes_a_million_at_most() {
    let cases = [
        (Algorithm::SlidingLog, "sliding_log", "use sub_windows for large counts"),
        (Algorithm::Concurrency, "concurrency", "lower max"),
    ];
    for (algorithm, name, instead) in cases {
        let (error, message) = refusal(algorithm, MAX_LOGGED + 1, SECOND);
        assert_eq!(error, LimitError::TooManyLogged { algorithm: name, found: MAX_LOGGED + 1, instead });
        assert_eq!(
            message,
            format!(
                "{name} keeps one entry per request, so it allows at most 1000000, got 1000001; {instead}"
            )
        );
        assert!(Limit::new(algorithm, MAX_LOGGED, SECOND).is_ok());
    }
}

#[test]
fn only_fixed_windows_follow_the_calendar() {
    let calendar = || Window::Calendar(Calendar::new(CalendarUnit::Day, "Europe/Berlin").unwrap());
    let others = [
        Algorithm::SlidingWindow,
        Algorithm::SubWindows { buckets: 24 },
        Algorithm::SlidingLog,
        Algorithm::TokenBucket { burst: 1 },
        leaky(1),
        Algorithm::Concurrency,
    ];
    for algorithm in others {
        let (error, message) = refusal(algorithm, 1, calendar());
        assert_eq!(error, LimitError::CalendarNotFixed { algorithm: algorithm.name() });
        assert_eq!(
            message,
            format!(
                "calendar windows need algorithm fixed_window, got {}: only its windows have a beginning",
                algorithm.name()
            )
        );
    }
    assert!(Limit::new(Algorithm::FixedWindow, 1, calendar()).is_ok());
}

#[test]
fn a_burst_is_the_requests_unless_the_algorithm_has_its_own() {
    let burst = |algorithm| Limit::new(algorithm, 5, SECOND).unwrap().burst();
    assert_eq!(burst(Algorithm::FixedWindow), 5);
    assert_eq!(burst(Algorithm::Concurrency), 5);
    assert_eq!(burst(Algorithm::TokenBucket { burst: 9 }), 9);
    assert_eq!(burst(leaky(1)), 1);
    assert_eq!(Limit::token_bucket(5, SECOND).unwrap().burst(), 5);
    assert_eq!(Limit::token_bucket(0, SECOND).unwrap().requests(), 0);
}

#[test]
fn a_counter_is_carried_on_while_its_kind_and_window_stay() {
    let family = |algorithm, requests, window| Limit::new(algorithm, requests, window).unwrap().family();
    let bucket = |burst| Algorithm::TokenBucket { burst };
    assert_eq!(family(bucket(1), 5, SECOND), family(bucket(9), 7, SECOND));
    let queue = Algorithm::LeakyBucket { burst: 3, mode: LeakyMode::Queue };
    assert_eq!(family(leaky(1), 5, SECOND), family(queue, 5, SECOND));
    let daily = |zone| Window::Calendar(Calendar::new(CalendarUnit::Day, zone).unwrap());
    let families = [
        family(bucket(1), 5, SECOND),
        family(bucket(1), 5, Window::seconds(2)),
        family(leaky(1), 5, SECOND),
        family(Algorithm::FixedWindow, 5, SECOND),
        family(Algorithm::SlidingWindow, 5, SECOND),
        family(Algorithm::SubWindows { buckets: 2 }, 5, SECOND),
        family(Algorithm::SubWindows { buckets: 3 }, 5, SECOND),
        family(Algorithm::FixedWindow, 5, daily("Europe/Berlin")),
        family(Algorithm::FixedWindow, 5, daily("UTC")),
    ];
    let distinct: std::collections::HashSet<_> = families.iter().collect();
    assert_eq!(distinct.len(), families.len(), "{families:?}");
}

#[test]
fn a_limit_is_small_enough_to_have_one_for_each_of_many_tenants() {
    assert!(size_of::<Limit>() <= 104, "{} bytes", size_of::<Limit>());
    assert_eq!(size_of::<Option<Limit>>(), size_of::<Limit>());
}
