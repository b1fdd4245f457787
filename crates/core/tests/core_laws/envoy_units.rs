//! Every unit of Envoy with every u32 count makes a valid limit, and an exact one.

use tidegate_core::limit::MAX_LOGGED;
use tidegate_core::{Algorithm, LeakyMode, Limit, LimitError, Micros, Window};
use tidegate_testkit::schedule::{Action, Advance, Amount, Scale, Schedule, Step};

use crate::agrees_with_oracle::agrees;

const UNITS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];
const COUNTS: [u32; 7] = [0, 1, 2, 3, 7, 1_000, u32::MAX];

fn algorithms(count: u64) -> Vec<Algorithm> {
    let burst = count.max(1);
    let queue = |burst| Algorithm::LeakyBucket { burst, mode: LeakyMode::Queue };
    vec![
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SubWindows { buckets: 60 },
        Algorithm::SubWindows { buckets: 7 },
        Algorithm::SlidingLog,
        Algorithm::TokenBucket { burst },
        Algorithm::TokenBucket { burst: 1 },
        Algorithm::LeakyBucket { burst: 1, mode: LeakyMode::Meter },
        Algorithm::LeakyBucket { burst, mode: LeakyMode::Meter },
        queue(1),
        queue(burst),
        Algorithm::Concurrency,
    ]
}

/// A schedule that uses up the limit and then charges one unit, half the limit and all of it, each a
/// microsecond too early and on time.
fn to_the_edges() -> Schedule {
    let charge = |amount, hold| Action::Charge { amount, hold };
    let one = Amount::Units(1);
    let rest = Amount::Remaining { plus: 0 };
    let steps = [
        (Advance::Us(0), charge(one, false)),
        (Advance::Us(1), charge(rest, true)),
        (Advance::Us(0), charge(one, false)),
        (Advance::ToRetry { plus: -1 }, charge(one, false)),
        (Advance::ToRetry { plus: 0 }, charge(one, false)),
        (Advance::Sixteenths { parts: 7, of: Scale::Period }, charge(Amount::Sixteenths(8), true)),
        (Advance::Us(0), charge(Amount::Burst { plus: 0 }, true)),
        (Advance::ToRetry { plus: -1 }, charge(Amount::Burst { plus: 0 }, true)),
        (Advance::ToRetry { plus: 0 }, charge(Amount::Burst { plus: 0 }, true)),
        (Advance::ToEdge { plus: -1 }, charge(rest, true)),
        (Advance::ToEdge { plus: 0 }, charge(Amount::Remaining { plus: 1 }, false)),
        (Advance::Us(0), Action::Refund(one)),
        (Advance::Us(0), charge(one, true)),
        (Advance::Sixteenths { parts: 33, of: Scale::Period }, charge(Amount::Burst { plus: 1 }, true)),
        (Advance::Us(0), charge(Amount::Burst { plus: 0 }, true)),
        (Advance::ToRetry { plus: 0 }, Action::Peek),
    ];
    let steps = steps.into_iter().map(|(advance, action)| Step { advance, action }).collect();
    Schedule { start: Micros(1_700_000_000_123_457), steps }
}

#[test]
fn every_unit_with_every_count_makes_an_exact_limit() {
    for unit in UNITS {
        for count in COUNTS.map(u64::from) {
            for algorithm in algorithms(count) {
                let limit = Limit::new(algorithm, count, Window::named(unit).unwrap());
                let logs = matches!(algorithm, Algorithm::SlidingLog | Algorithm::Concurrency);
                match limit {
                    Ok(_) if algorithm == Algorithm::Concurrency => assert!(count <= MAX_LOGGED),
                    Ok(limit) => agrees((limit, to_the_edges())),
                    Err(LimitError::TooManyLogged { .. }) => assert!(logs && count > MAX_LOGGED),
                    Err(error) => panic!("{count} per {unit}, {algorithm:?}: {error}"),
                }
            }
        }
    }
}

/// The largest u32 count, with the shortest and the longest unit.
#[test]
fn a_full_count_is_spent_to_the_unit() {
    for unit in ["second", "year"] {
        for algorithm in algorithms(u64::from(u32::MAX)).into_iter().filter(|a| *a != Algorithm::SlidingLog) {
            let Ok(limit) = Limit::new(algorithm, u64::from(u32::MAX), Window::named(unit).unwrap()) else {
                continue;
            };
            let (mut state, now) = (limit.fresh(), Micros(1_700_000_000_000_000));
            let verdict = limit.charge(&mut state, limit.burst() - u64::from(limit.burst() > 1), now);
            assert!(verdict.allowed(), "{limit:?}");
            let left = if limit.queues() { 0 } else { u64::from(limit.burst() > 1) };
            assert_eq!(verdict.remaining, left, "{limit:?}");
        }
    }
}
