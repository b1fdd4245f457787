//! A clock that jumps, by any time in either direction, admits at most one extra limit and locks nobody out
//! for longer than their window.

use proptest::prelude::*;
use tidegate_core::{Limit, Micros};
use tidegate_testkit::promise;
use tidegate_testkit::schedule::{Advance, Mix, Schedule, Step, clock_steps, schedules};

use crate::counter::{Counter, Operation};
use crate::for_all;

const CASES: u32 = 400;
const STEPS: usize = 15;

/// A schedule, a clock step, and another schedule that continues from there.
fn schedules_with_one_step() -> impl Strategy<Value = (Schedule, Advance, Schedule)> {
    (schedules(Mix::Charges, STEPS), clock_steps(), schedules(Mix::Charges, STEPS))
}

/// Performs the steps. Returns what was admitted, and when by the counter's clock.
fn admit(counter: &mut Counter, steps: &[Step], mut check: impl FnMut(&Counter)) -> Vec<(Micros, u64)> {
    let mut admitted = Vec::new();
    for step in steps {
        let operation = counter.arrive(step);
        let verdict = counter.perform(&operation);
        if let Operation::Charge { cost: cost @ 1.., .. } = operation
            && verdict.allowed()
        {
            admitted.push((counter.now, cost));
        }
        check(counter);
    }
    admitted
}

fn step_clock(counter: &mut Counter, step: Advance) {
    counter.now = step.from(&counter.limit, counter.now, counter.now);
}

/// The promise is kept before the step and after it, each on its own. So together they admit at most one
/// limit more than promised.
pub(crate) fn a_clock_step_admits_at_most_one_more_limit(limits: impl Strategy<Value = Limit>) {
    for_all(CASES, (limits, schedules_with_one_step()), |(limit, (before, step, after))| {
        let mut counter = Counter::new(&limit, before.start);
        promise::kept(&limit, &admit(&mut counter, &before.steps, |_| {})).unwrap();
        step_clock(&mut counter, step);
        promise::kept(&limit, &admit(&mut counter, &after.steps, |_| {})).unwrap();
    });
}

pub(crate) fn a_clock_step_locks_nobody_out_for_longer_than_their_window(
    limits: impl Strategy<Value = Limit>,
) {
    for_all(CASES, (limits, schedules_with_one_step()), |(limit, (before, step, after))| {
        let locked_out = |counter: &Counter| {
            for cost in [1, limit.burst().div_ceil(2), limit.burst()] {
                if counter.ever_admits() {
                    let waited_us = counter.locked_out_us(cost);
                    assert!(waited_us <= counter.longest_wait_us(), "{waited_us} us for {cost}: {counter:?}");
                }
            }
        };
        let mut counter = Counter::new(&limit, before.start);
        admit(&mut counter, &before.steps, locked_out);
        step_clock(&mut counter, step);
        locked_out(&counter);
        admit(&mut counter, &after.steps, locked_out);
    });
}
