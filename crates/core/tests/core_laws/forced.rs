//! Forced charges, which are made whether they fit or not.

use proptest::prelude::*;
use tidegate_core::Limit;
use tidegate_testkit::schedule::{Mix, schedules};

use crate::counter::Counter;
use crate::for_all;

const CASES: u32 = 400;

fn forced(counter: &Counter, cost: u64) -> Counter {
    let mut forced = counter.clone();
    forced.limit.take(&mut forced.state, cost, forced.now);
    forced
}

pub(crate) fn a_forced_charge_locks_nobody_out_for_longer_than_their_window(
    limits: impl Strategy<Value = Limit>,
) {
    for_all(CASES, (limits, schedules(Mix::Plain, 30)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, |counter| {
            for taken in [1, limit.burst(), u64::MAX].map(|cost| forced(counter, cost)) {
                for cost in [1, limit.burst()].into_iter().filter(|_| counter.ever_admits()) {
                    let waited_us = taken.locked_out_us(cost);
                    assert!(waited_us <= taken.longest_wait_us(), "{waited_us} us for {cost}: {taken:?}");
                }
            }
        });
    });
}

/// A limit that is used up by forced charges stays used up, and further charges do not change it.
pub(crate) fn forced_charges_saturate(limits: impl Strategy<Value = Limit>) {
    for_all(CASES, (limits, schedules(Mix::Plain, 30)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, |counter| {
            let all = forced(counter, u64::MAX);
            assert_eq!(all.look(0, true).remaining, 0, "{all:?}");
            let more = forced(&all, u64::MAX);
            for cost in counter.telling_costs() {
                assert_eq!(all.look(cost, true), more.look(cost, true), "{all:?}");
            }
        });
    });
}
