//! `retry_after`, `remaining` and `reset_after` are exact, and peeks change nothing.

use proptest::prelude::*;
use tidegate_core::{Algorithm, Limit, Micros, NEVER_US};
use tidegate_testkit::schedule::{Mix, schedules};

use crate::counter::Counter;
use crate::for_all;

/// Calls `check` in every state that random schedules lead to.
fn always(limits: impl Strategy<Value = Limit>, check: impl Fn(&Counter)) {
    for_all(400, (limits, schedules(Mix::Plain, 40)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, &check);
    });
}

pub(crate) fn denied_until_retry_after_and_allowed_at_it(limits: impl Strategy<Value = Limit>) {
    always(limits, |counter| {
        for (cost, hold) in counter.telling_costs().map(|cost| [(cost, false), (cost, true)]).concat() {
            let Some(retry_us) = counter.look(cost, hold).retry_after_us().filter(|us| *us != NEVER_US)
            else {
                continue;
            };
            assert_ne!(retry_us, 0, "denied, but would be allowed now: {cost} of {counter:?}");
            let before = counter.look_at(counter.now.plus(retry_us - 1), cost, hold);
            assert!(!before.allowed(), "{cost} is allowed before {retry_us} us: {before:?} of {counter:?}");
            let at = counter.look_at(counter.now.plus(retry_us), cost, hold);
            assert!(at.allowed(), "{cost} is not allowed after {retry_us} us: {at:?} of {counter:?}");
        }
    });
}

pub(crate) fn never_is_said_only_of_what_can_never_fit(limits: impl Strategy<Value = Limit>) {
    always(limits, |counter| {
        for (cost, hold) in counter.telling_costs().map(|cost| [(cost, false), (cost, true)]).concat() {
            let never = counter.look(cost, hold).retry_after_us() == Some(NEVER_US);
            let fits_a_fresh_one = counter.limit.assess(&counter.limit.fresh(), cost, counter.now, hold);
            assert_eq!(never, !fits_a_fresh_one.allowed(), "{cost} of {counter:?}");
            assert_eq!(never, cost > 0 && (cost > counter.limit.burst() || !counter.ever_admits()));
        }
    });
}

pub(crate) fn remaining_is_the_largest_cost_that_fits(limits: impl Strategy<Value = Limit>) {
    always(limits, |counter| {
        for hold in [false, true] {
            let remaining = counter.look(0, hold).remaining;
            assert!(remaining == 0 || counter.look(remaining, hold).allowed(), "{counter:?}");
            assert!(!counter.look(remaining + 1, hold).allowed(), "{counter:?}");
            for cost in counter.telling_costs() {
                let mut charged = counter.clone();
                let verdict = charged.charge(cost, hold);
                assert_eq!(verdict.remaining, charged.look(0, hold).remaining, "{cost} of {counter:?}");
                assert_eq!(verdict.reset_after_us, charged.look(0, hold).reset_after_us);
            }
        }
    });
}

pub(crate) fn untouched_exactly_at_reset_after(limits: impl Strategy<Value = Limit>) {
    always(limits, |counter| {
        let same_as_fresh = |at: Micros, cost: u64, hold: bool| {
            counter.look_at(at, cost, hold) == counter.limit.assess(&counter.limit.fresh(), cost, at, hold)
        };
        let reset_us = counter.look(0, false).reset_after_us;
        for (cost, hold) in counter.telling_costs().map(|cost| [(cost, false), (cost, true)]).concat() {
            assert!(same_as_fresh(counter.now.plus(reset_us), cost, hold), "{cost} of {counter:?}");
        }
        let resets_by_itself = counter.limit.algorithm() == Algorithm::FixedWindow;
        if let Some(before_us) = reset_us.checked_sub(1).filter(|_| !resets_by_itself) {
            assert!(!same_as_fresh(counter.now.plus(before_us), 0, true), "reset early: {counter:?}");
        }
    });
}

/// A store deletes a key when its state has expired. This must not refill the limit.
pub(crate) fn nothing_of_an_expired_state_counts(limits: impl Strategy<Value = Limit>) {
    for_all(400, (limits, schedules(Mix::ClockSteps, 40)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, |counter| {
            let expires = counter.state.expires(&limit).max(counter.now);
            for at in [expires, expires.plus(1), expires.plus(limit.period_us())] {
                for (cost, hold) in counter.telling_costs().map(|cost| [(cost, false), (cost, true)]).concat()
                {
                    let fresh = limit.assess(&limit.fresh(), cost, at, hold);
                    assert_eq!(counter.look_at(at, cost, hold), fresh, "{cost} at {at:?} of {counter:?}");
                }
            }
        });
    });
}

pub(crate) fn peeks_and_denials_change_nothing(limits: impl Strategy<Value = Limit>) {
    always(limits, |counter| {
        for (cost, hold) in counter.telling_costs().map(|cost| [(cost, false), (cost, true)]).concat() {
            let mut charged = counter.clone();
            let verdict = charged.charge(cost, hold);
            if cost == 0 || !verdict.allowed() {
                assert_eq!(charged.state, counter.state, "{cost} of {counter:?}");
            }
        }
    });
}
