//! Every verdict, with all its numbers, equals the verdict of the slow oracle.

use proptest::prelude::*;
use tidegate_core::algorithm::{fixed_window, leaky_bucket, sliding_window, token_bucket};
use tidegate_core::{Algorithm, Limit, State, Verdict};
use tidegate_testkit::oracle::{self, Oracle};
use tidegate_testkit::schedule::{Mix, Schedule, schedules};

use crate::counter::{Counter, Operation};
use crate::for_all;

const CASES: u32 = 400;
const STEPS: usize = 30;

pub(crate) fn every_decision_is_the_oracles(limits: impl Strategy<Value = Limit>) {
    for_all(CASES, (limits, schedules(Mix::Plain, STEPS)), agrees);
}

pub(crate) fn every_decision_is_the_oracles_when_the_clock_steps(limits: impl Strategy<Value = Limit>) {
    for_all(CASES, (limits, schedules(Mix::ClockSteps, STEPS)), agrees);
}

pub(crate) fn every_decision_is_the_oracles_when_the_limit_changes(limits: impl Strategy<Value = Limit>) {
    for_all(CASES, (limits, schedules(Mix::Changes, STEPS)), agrees);
}

/// Runs a schedule with the code and with the oracle, and compares all verdicts.
pub(crate) fn agrees((limit, schedule): (Limit, Schedule)) {
    let mut counter = Counter::new(&limit, schedule.start);
    let mut oracle = oracle::of(&limit);
    for step in &schedule.steps {
        let operation = counter.arrive(step);
        let expected = perform(oracle.as_mut(), &operation, &counter);
        let before = counter.clone();
        let verdict = counter.perform(&operation);
        assert_eq!(verdict, expected, "{operation:?} on {before:?}");
    }
}

fn perform(oracle: &mut dyn Oracle, operation: &Operation, counter: &Counter) -> Verdict {
    let now = counter.now;
    match operation {
        Operation::Charge { cost, hold } => return oracle::charge(oracle, *cost, now, *hold),
        Operation::Take { cost } => oracle.take(*cost, now),
        Operation::Refund { cost } => oracle.give_back(*cost, now),
        Operation::Relimit { limit } => oracle.relimit(limit, now),
        Operation::Peek => {}
    }
    oracle::assess(oracle, 0, now, false)
}

/// An algorithm's `charge` gives the same result as `assess` followed by `take`.
pub(crate) fn charging_in_one_go_is_assessing_and_taking(limits: impl Strategy<Value = Limit>) {
    for_all(200, (limits, schedules(Mix::ClockSteps, 40)), |(limit, schedule)| {
        Counter::run(&limit, &schedule, |counter| {
            for (cost, hold) in counter.telling_costs().map(|cost| [(cost, false), (cost, true)]).concat() {
                let Some((state, verdict)) = in_one_go(counter, cost, hold) else { return };
                let mut apart = counter.clone();
                assert_eq!(verdict, apart.charge(cost, hold), "{counter:?} charged {cost}");
                if cost > 0 {
                    assert_eq!(state, apart.state, "{counter:?} charged {cost}");
                }
            }
        });
    });
}

/// Charges with the `charge` function of the algorithm, if it has one.
pub(crate) fn in_one_go(counter: &Counter, cost: u64, hold: bool) -> Option<(State, Verdict)> {
    let (limit, now) = (&counter.limit, counter.now);
    Some(match (limit.algorithm(), &counter.state) {
        (Algorithm::FixedWindow, State::FixedWindow(state)) => {
            let (state, verdict) = fixed_window::charge(limit, *state, cost, now);
            (State::FixedWindow(state), verdict)
        }
        (Algorithm::SlidingWindow, State::SlidingWindow(state)) => {
            let (state, verdict) = sliding_window::charge(limit, *state, cost, now);
            (State::SlidingWindow(state), verdict)
        }
        (Algorithm::TokenBucket { .. }, State::Arrival(state)) => {
            let (state, verdict) = token_bucket::charge(limit, *state, cost, now);
            (State::Arrival(state), verdict)
        }
        (Algorithm::LeakyBucket { .. }, State::Arrival(state)) => {
            let (state, verdict) = leaky_bucket::charge(limit, *state, cost, now, hold);
            (State::Arrival(state), verdict)
        }
        _ => return None,
    })
}
