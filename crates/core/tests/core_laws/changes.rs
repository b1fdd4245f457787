//! A limit whose numbers change keeps its counter.

use proptest::prelude::*;
use tidegate_core::{Algorithm, Limit, Micros, Window};
use tidegate_testkit::schedule::{Change, Mix, changes, schedules};

use crate::agrees_with_oracle::in_one_go;
use crate::counter::Counter;
use crate::for_all;

/// Calls `check` for a random change of the limit in every state that random schedules lead to, with the
/// counter before and after the change.
fn changed(limits: impl Strategy<Value = Limit>, check: impl Fn(&Counter, &Counter)) {
    for_all(
        400,
        (limits, schedules(Mix::Plain, 30), changes()),
        |(limit, schedule, change): (_, _, Change)| {
            let Some(other) = change.apply(&limit) else { return };
            Counter::run(&limit, &schedule, |counter| {
                let mut after = counter.clone();
                after.relimit(&other);
                if counter.ever_admits() && after.ever_admits() {
                    check(counter, &after);
                }
            });
        },
    );
}

/// Returns the burst, and how much of it is left. A queue is charged as by a caller that can hold requests.
fn full_and_left(counter: &Counter) -> (u64, u64) {
    (counter.limit.burst(), counter.look(0, true).remaining)
}

/// Raising a limit adds the difference at once; lowering it removes the difference, down to nothing left
/// but not below; and what was used stays used.
pub(crate) fn units_in_use_stay_in_use(limits: impl Strategy<Value = Limit>) {
    changed(limits, |before, after| {
        let ((old_full, old_left), (new_full, new_left)) = (full_and_left(before), full_and_left(after));
        if old_left > 0 {
            let in_use = old_full - old_left;
            assert_eq!(new_left, new_full.saturating_sub(in_use), "{before:?} became {after:?}");
        } else {
            // All units are in use, or more than all after a forced charge.
            assert!(new_left <= new_full.saturating_sub(old_full), "{before:?} became {after:?}");
        }
    });
}

pub(crate) fn a_changed_limit_locks_nobody_out_for_longer_than_its_window(
    limits: impl Strategy<Value = Limit>,
) {
    changed(limits, |before, after| {
        for cost in [1, after.limit.burst()] {
            let waited_us = after.locked_out_us(cost);
            assert!(waited_us <= after.longest_wait_us(), "{waited_us} us for {cost}: {before:?}, {after:?}");
        }
    });
}

/// A limit that is raised and lowered again at the same moment is unchanged.
pub(crate) fn raising_and_lowering_back_changes_nothing(limits: impl Strategy<Value = Limit>) {
    changed(limits, |before, raised| {
        if raised.limit.burst() >= before.limit.burst() {
            let mut back = raised.clone();
            back.relimit(&before.limit);
            assert_eq!(full_and_left(&back), full_and_left(before), "{before:?} by way of {raised:?}");
        }
    });
}

/// The first charge under new numbers adapts the counter, whether it is denied or not, on every code path.
pub(crate) fn the_first_charge_carries_the_counter_on(limits: impl Strategy<Value = Limit>) {
    changed(limits, |before, after| {
        let unaware = Counter { limit: after.limit.clone(), ..before.clone() };
        for (cost, hold) in after.telling_costs()[1..].iter().flat_map(|cost| [(*cost, false), (*cost, true)])
        {
            let (mut expected, mut charged) = (after.clone(), unaware.clone());
            assert_eq!(charged.charge(cost, hold), expected.charge(cost, hold), "{cost} of {unaware:?}");
            if cost > 0 {
                assert_eq!(charged.state, expected.state, "{cost} of {unaware:?}");
            }
            if let Some((state, _)) = in_one_go(&unaware, cost, hold).filter(|_| cost > 0) {
                assert_eq!(state, expected.state, "{cost} of {unaware:?}");
            }
        }
    });
}

fn token_bucket(burst: u64, requests: u64) -> Limit {
    Limit::new(Algorithm::TokenBucket { burst }, requests, Window::seconds(1)).unwrap()
}

/// Bursts that share bits must not be confused with each other.
#[test]
fn lowering_only_the_burst_of_a_spent_token_bucket_refills_nothing() {
    let powers = (0..=53).map(|power| 1_u64 << power);
    let bursts: Vec<_> = powers.flat_map(|power| [power, power / 3 * 2 + 1, power + power / 32]).collect();
    for burst in bursts.iter().copied().filter(|burst| *burst <= tidegate_core::MAX_COUNT) {
        for lower in bursts.iter().copied().filter(|lower| *lower < burst) {
            let mut counter = Counter::new(&token_bucket(burst, 1 << 40), Micros(1 << 50));
            assert!(counter.charge(burst, false).allowed());
            counter.relimit(&token_bucket(lower, 1 << 40));
            assert_eq!(counter.look(0, false).remaining, 0, "from {burst} to {lower}");
        }
    }
}

/// A limit of zero is a ban, and does not reset the counter.
#[test]
fn a_spent_bucket_is_not_refilled_by_a_ban() {
    let (limit, ban) = (token_bucket(10, 10), token_bucket(10, 0));
    let mut counter = Counter::new(&limit, Micros(1 << 50));
    assert!(counter.charge(10, false).allowed());
    counter.relimit(&ban);
    assert!(!counter.charge(1, false).allowed());
    counter.limit.take(&mut counter.state, 1, counter.now);
    counter.limit.give_back(&mut counter.state, 1, counter.now);
    counter.relimit(&limit);
    assert_eq!(counter.look(0, false).remaining, 0);
}

/// A client that is being denied gets the faster rate at once, not when the old rate admits it.
#[test]
fn raising_the_rate_of_a_spent_bucket_takes_effect_at_once() {
    let mut counter = Counter::new(&token_bucket(100, 1), Micros(1 << 50));
    assert!(counter.charge(100, false).allowed());
    counter.relimit(&token_bucket(100, 100));
    assert_eq!(counter.charge(1, false).retry_after_us(), Some(10_000));
    counter.now = counter.now.plus(10_000);
    assert!(counter.charge(1, false).allowed());
}

/// No debt is larger than the bucket.
#[test]
fn lowering_the_burst_of_a_spent_bucket_leaves_it_empty_not_below() {
    let mut counter = Counter::new(&token_bucket(1_000, 1), Micros(1 << 50));
    assert!(counter.charge(1_000, false).allowed());
    counter.relimit(&token_bucket(10, 1));
    assert_eq!(counter.charge(1, false).retry_after_us(), Some(1_000_000));
    counter.now = counter.now.plus(1_000_000);
    assert!(counter.charge(1, false).allowed());
}
