//! Refunds give back what was taken, and never more.

use proptest::prelude::*;
use tidegate_core::Limit;
use tidegate_testkit::schedule::{Mix, schedules};

use crate::counter::Counter;
use crate::for_all;

/// Asserts that two counters of one limit give the same verdicts, now and at later times.
pub(crate) fn answer_alike(one: &Counter, other: &Counter) {
    let period_us = one.limit.period_us();
    for later_us in [0, 1, period_us / 3, period_us, 3 * period_us / 2, 2 * period_us, 3 * period_us] {
        let at = one.now.plus(later_us);
        for (cost, hold) in one.telling_costs().map(|cost| [(cost, false), (cost, true)]).concat() {
            assert_eq!(
                one.look_at(at, cost, hold),
                other.look_at(at, cost, hold),
                "{cost} after {later_us} us of {one:?} and {other:?}"
            );
        }
    }
}

pub(crate) fn refund_restores_what_was_taken(limits: impl Strategy<Value = Limit>) {
    for_all(250, (limits, schedules(Mix::Plain, 30)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, |counter| {
            for cost in counter.telling_costs() {
                let mut refunded = counter.clone();
                if refunded.charge(cost, true).allowed() {
                    refunded.limit.give_back(&mut refunded.state, cost, refunded.now);
                    answer_alike(&refunded, counter);
                }
            }
        });
    });
}

pub(crate) fn refund_never_goes_above_full(limits: impl Strategy<Value = Limit>) {
    for_all(250, (limits, schedules(Mix::Plain, 30)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, |counter| {
            let fresh = Counter { state: counter.limit.fresh(), ..counter.clone() };
            let full = fresh.look(0, true).remaining;
            assert!(counter.look(0, true).remaining <= full, "{counter:?}");
            for cost in [counter.limit.burst(), u64::MAX] {
                let mut refunded = counter.clone();
                refunded.limit.give_back(&mut refunded.state, cost, refunded.now);
                assert!(refunded.look(0, true).remaining <= full, "{counter:?}");
                if cost == u64::MAX {
                    answer_alike(&refunded, &fresh);
                }
            }
        });
    });
}
