//! Charges whose cost was an estimate, corrected once the true cost is known.

use proptest::prelude::*;
use tidegate_core::{Algorithm, Limit, Micros, Taken, Window};
use tidegate_testkit::schedule::{Mix, schedules};

use crate::counter::{Counter, Operation};
use crate::for_all;
use crate::refunds::answer_alike;

/// Charges an estimate if it fits.
fn reserve(counter: &mut Counter, estimate: u64) -> Option<Taken> {
    let verdict = counter.charge(estimate, true);
    let clear_at = counter.now.plus(verdict.reset_after_us);
    verdict.allowed().then_some(Taken { at: counter.now, clear_at })
}

fn overdrawn(counter: &Counter, cost: u64) -> Counter {
    let mut overdrawn = counter.clone();
    overdrawn.limit.overdraw(&mut overdrawn.state, cost, overdrawn.now);
    overdrawn
}

pub(crate) fn a_correction_at_once_is_as_if_the_true_cost_had_been_charged(
    limits: impl Strategy<Value = Limit>,
) {
    for_all(250, (limits, schedules(Mix::Plain, 30)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, |counter| {
            for estimate in counter.telling_costs() {
                for used in [0, 1, estimate / 2].into_iter().filter(|used| *used <= estimate) {
                    let (mut corrected, mut direct) = (counter.clone(), counter.clone());
                    let Some(taken) = reserve(&mut corrected, estimate) else { continue };
                    let Counter { limit, state, now, .. } = &mut corrected;
                    limit.give_back_taken(state, estimate - used, taken, *now);
                    reserve(&mut direct, used);
                    answer_alike(&corrected, &direct);
                    // The opposite case: less was reserved than was used.
                    let mut corrected = counter.clone();
                    if reserve(&mut corrected, used).is_some() {
                        let corrected = overdrawn(&corrected, estimate - used);
                        let mut direct = counter.clone();
                        reserve(&mut direct, estimate);
                        answer_alike(&corrected, &direct);
                    }
                }
            }
        });
    });
}

/// A second counter is charged the true cost from the beginning, and then everything that the first one
/// admits in the meantime. After the refund the first counter admits no more than the second. Other
/// reservations are refunded in the meantime, in both counters.
pub(crate) fn a_late_refund_gives_no_more_than_had_less_been_charged(limits: impl Strategy<Value = Limit>) {
    let others = proptest::collection::vec((0_usize..15, 1_u64..5), 0..4);
    let parts = (schedules(Mix::Charges, 15), schedules(Mix::Charges, 15), 0_u64..4, others);
    for_all(400, (limits, parts), |(limit, (before, meanwhile, used, others))| {
        let mut counter = Counter::run(&limit, &before, |_| {});
        let reserve_other = |(when, part): (usize, u64)| {
            let cost = counter.look(0, false).remaining / part;
            reserve(&mut counter, cost).map(|taken| (when, cost, taken))
        };
        let others: Vec<_> = others.into_iter().filter_map(reserve_other).collect();
        let estimate = counter.look(0, false).remaining.div_ceil(2);
        let mut exact = counter.clone();
        let Some(taken) = reserve(&mut counter, estimate).filter(|_| estimate > 0) else { return };
        let used = used * estimate / 4;
        exact.limit.take(&mut exact.state, used, exact.now);
        for (number, step) in meanwhile.steps.iter().enumerate() {
            let operation = counter.arrive(step);
            exact.now = counter.now;
            for (_, cost, taken) in others.iter().filter(|(when, ..)| *when == number) {
                for Counter { limit, state, now, .. } in [&mut counter, &mut exact] {
                    limit.give_back_taken(state, *cost, *taken, *now);
                }
            }
            let verdict = counter.perform(&operation);
            if let Operation::Charge { cost: cost @ 1.., .. } = operation
                && verdict.allowed()
            {
                exact.limit.take(&mut exact.state, cost, exact.now);
            }
        }
        let Counter { limit, state, now, .. } = &mut counter;
        limit.give_back_taken(state, estimate - used, taken, *now);
        let period_us = limit.period_us();
        for later_us in [0, 1, period_us / 3, period_us, 3 * period_us / 2, 2 * period_us] {
            let at = counter.now.plus(later_us);
            let (refunded, exactly) = (counter.look_at(at, 0, true), exact.look_at(at, 0, true));
            // Times are whole microseconds, so a bucket may be off by what drains in one of them.
            let spare = limit_per_us(&counter.limit);
            assert!(
                refunded.remaining <= exactly.remaining + spare,
                "{} left instead of {} after {later_us} us: {counter:?} and {exact:?}",
                refunded.remaining,
                exactly.remaining
            );
        }
    });
}

/// Returns the units that a bucket drains in a microsecond, rounded up.
fn limit_per_us(limit: &Limit) -> u64 {
    match limit.algorithm() {
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
            limit.requests().div_ceil(limit.period_us())
        }
        _ => 0,
    }
}

pub(crate) fn what_is_overdrawn_is_owed_until_it_says_and_not_for_longer(
    limits: impl Strategy<Value = Limit>,
) {
    for_all(250, (limits, schedules(Mix::Plain, 20)), |(limit, schedule)| {
        let counter = Counter::run(&limit, &schedule, |_| {});
        for beyond in [1, limit.burst(), limit.burst().saturating_mul(3), 1 << 53] {
            let counter = overdrawn(&counter, beyond);
            for cost in [1, limit.burst()].into_iter().filter(|_| counter.ever_admits()) {
                let Some(retry_us) = counter.look(cost, false).retry_after_us() else { continue };
                let at = counter.now.plus(retry_us);
                assert!(counter.look_at(at, cost, false).allowed(), "{cost} after {retry_us}: {counter:?}");
                if retry_us > 0 {
                    let earlier = counter.look_at(at.minus(1), cost, false);
                    assert!(!earlier.allowed(), "{cost} before {retry_us}: {counter:?}");
                }
            }
        }
    });
}

pub(crate) fn overdrawing_in_pieces_is_overdrawing_at_once(limits: impl Strategy<Value = Limit>) {
    let costs = (0_u64..1 << 20, 0_u64..1 << 20);
    for_all(250, (limits, schedules(Mix::Plain, 20), costs), |(limit, schedule, (one, two))| {
        let counter = Counter::run(&limit, &schedule, |_| {});
        answer_alike(&overdrawn(&overdrawn(&counter, one), two), &overdrawn(&counter, one + two));
    });
}

/// A step back of the clock at most doubles the time for which a bucket is overdrawn.
pub(crate) fn a_step_back_at_most_doubles_what_is_owed(limits: impl Strategy<Value = Limit>) {
    let inputs = (limits, schedules(Mix::Plain, 20), 0_u64..1 << 30, 0_u64..1 << 45);
    for_all(250, inputs, |(limit, schedule, beyond, back_us)| {
        let counter = Counter::run(&limit, &schedule, |_| {});
        let owing = overdrawn(&counter, beyond);
        if !counter.ever_admits() {
            return;
        }
        let before_us = owing.locked_out_us(1);
        let stepped = Counter { now: owing.now.minus(back_us), ..owing.clone() };
        let most_us = (2 * before_us).max(stepped.longest_wait_us()) + 2 * limit.period_us();
        assert!(stepped.locked_out_us(1) <= most_us, "{owing:?} at {:?}", stepped.now);
    });
}

const NOW: Micros = Micros(1_700_000_000_000_000);

fn limit(algorithm: Algorithm) -> Limit {
    Limit::new(algorithm, 10, Window::seconds(10)).unwrap()
}

/// The seconds until one more unit fits, after 10 of 10 units were charged and 25 more were used. One unit
/// drains per second.
#[test]
fn debt_is_paid_by_waiting() {
    let table = [
        // NOW is the beginning of a window.
        (Algorithm::FixedWindow, 10),
        // In the next window 35 x overlap must leave room for one: overlap 9/35.
        (Algorithm::SlidingWindow, 10 + 8),
        (Algorithm::SubWindows { buckets: 10 }, 10),
        (Algorithm::SlidingLog, 10),
        // All 25 drain before there is room for one.
        (Algorithm::TokenBucket { burst: 10 }, 26),
        (Algorithm::LeakyBucket { burst: 10, mode: tidegate_core::LeakyMode::Meter }, 26),
    ];
    for (algorithm, seconds) in table {
        let limit = limit(algorithm);
        let mut state = limit.fresh();
        assert!(limit.charge(&mut state, 10, NOW).allowed());
        limit.overdraw(&mut state, 25, NOW);
        let denied = limit.assess(&state, 1, NOW, false);
        let wait_us = denied.retry_after_us().unwrap();
        assert_eq!((denied.remaining, wait_us.div_ceil(1_000_000)), (0, seconds), "{algorithm:?}");
        // A forced charge that does not fit does not shorten the wait.
        limit.take(&mut state, 1, NOW);
        assert!(limit.assess(&state, 1, NOW, false).retry_after_us().unwrap() >= wait_us, "{algorithm:?}");
    }
}

#[test]
fn a_refund_of_a_window_that_is_over_gives_nothing_to_the_next() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SubWindows { buckets: 10 }, Algorithm::SlidingLog] {
        let limit = limit(algorithm);
        let mut state = limit.fresh();
        let verdict = limit.charge(&mut state, 8, NOW);
        let taken = Taken { at: NOW, clear_at: NOW.plus(verdict.reset_after_us) };
        let later = NOW.plus(10_000_000);
        assert!(limit.charge(&mut state, 5, later).allowed());
        limit.give_back_taken(&mut state, 8, taken, later);
        assert_eq!(limit.assess(&state, 0, later, false).remaining, 5, "{algorithm:?}");
    }
}

/// 8 of 10 units are charged to an empty bucket. After 6 s, 2 of them are still owed, so at most 2 are
/// refunded.
#[test]
fn what_has_drained_from_a_bucket_is_not_given_back() {
    let limit = limit(Algorithm::TokenBucket { burst: 10 });
    let mut state = limit.fresh();
    let verdict = limit.charge(&mut state, 8, NOW);
    let taken = Taken { at: NOW, clear_at: NOW.plus(verdict.reset_after_us) };
    let later = NOW.plus(6_000_000);
    assert!(limit.charge(&mut state, 7, later).allowed());
    limit.give_back_taken(&mut state, 8, taken, later);
    assert_eq!(limit.assess(&state, 0, later, false).remaining, 10 - 2 - 7 + 2);
}

/// Twice 50 of 100 units are reserved, and 10 units drain per second. The first reservation is refunded
/// after 1 s. From then on the bucket would have been empty without the second one, so at 6 s nothing of
/// the second is left to refund.
#[test]
fn two_refunds_of_a_bucket_give_back_no_more_than_was_left() {
    let limit = Limit::new(Algorithm::TokenBucket { burst: 100 }, 100, Window::seconds(10)).unwrap();
    let mut counter = Counter::new(&limit, NOW);
    let (first, second) = (reserve(&mut counter, 50).unwrap(), reserve(&mut counter, 50).unwrap());
    limit.give_back_taken(&mut counter.state, 50, first, NOW.plus(1_000_000));
    let later = NOW.plus(6_000_000);
    assert!(limit.charge(&mut counter.state, 50, later).allowed());
    limit.give_back_taken(&mut counter.state, 50, second, later);
    assert_eq!(limit.assess(&counter.state, 0, later, false).remaining, 50);
}
