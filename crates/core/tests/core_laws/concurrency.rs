//! Concurrency: at most `max` slots are held at once, and the slots of a crashed holder become free.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::concurrency::{self, State};
use tidegate_core::{Limit, Micros, NEVER_US, Outcome, Window};
use tidegate_testkit::oracle;
use tidegate_testkit::schedule::{Advance, Amount, Change, Mix, changes, clock_steps, limits, schedules};

use crate::for_all;

/// An action of a slot holder.
#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire { id: u64, amount: Amount },
    Renew { id: u64 },
    Release { id: u64 },
    Relimit(Change),
}

/// Random scripts of several holders that compete for slots.
fn scripts(mix: Mix, steps: usize) -> impl Strategy<Value = (Micros, Vec<(Advance, Act)>)> {
    let ids = || 0_u64..8;
    let act = (ids(), 0_u8..10, changes()).prop_map(move |(id, which, change)| match which {
        0..=1 => Act::Renew { id },
        2..=3 => Act::Release { id },
        4 if mix == Mix::Changes => Act::Relimit(change),
        _ => Act::Acquire { id, amount: Amount::Units(1) },
    });
    // Takes times and amounts from an ordinary schedule, in some mixes with a clock that jumps.
    (schedules(mix, steps), vec(act, steps)).prop_map(|(schedule, acts)| {
        let amounts = schedule.steps.iter().map(|step| match step.action {
            tidegate_testkit::schedule::Action::Charge { amount, .. } => amount,
            _ => Amount::Units(1),
        });
        let acts = acts.into_iter().zip(amounts).map(|(act, amount)| match act {
            Act::Acquire { id, .. } => Act::Acquire { id, amount },
            other => other,
        });
        (schedule.start, schedule.steps.iter().map(|step| step.advance).zip(acts).collect())
    })
}

/// The slots of one limit and their holders.
#[derive(Clone, Debug)]
struct Slots {
    limit: Limit,
    state: State,
    now: Micros,
    retry_at: Micros,
}

impl Slots {
    fn new(limit: &Limit, now: Micros) -> Self {
        Self { limit: limit.clone(), state: State::default(), now, retry_at: now }
    }

    fn advance(&mut self, advance: Advance) {
        self.now = advance.from(&self.limit, self.now, self.retry_at);
    }

    fn acquire(&mut self, id: u64, cost: u64) -> tidegate_core::Verdict {
        let verdict = concurrency::acquire(&self.limit, &mut self.state, id, cost, self.now);
        if let Some(us) = verdict.retry_after_us().filter(|us| *us != NEVER_US) {
            self.retry_at = self.now.plus(us);
        }
        verdict
    }

    fn renew(&mut self, id: u64) -> bool {
        concurrency::renew(&self.limit, &mut self.state, id, self.now)
    }

    fn look(&self, cost: u64) -> tidegate_core::Verdict {
        concurrency::assess(&self.limit, &self.state, cost, self.now)
    }

    fn holds(&self, id: u64) -> bool {
        self.clone().renew(id)
    }
}

fn agrees((limit, (start, script)): (Limit, (Micros, Vec<(Advance, Act)>))) {
    let mut slots = Slots::new(&limit, start);
    let mut oracle = oracle::Concurrency::new(&limit);
    for (advance, act) in script {
        slots.advance(advance);
        let now = slots.now;
        match act {
            Act::Acquire { id, .. } if slots.holds(id) => {}
            Act::Acquire { id, amount } => {
                let cost = amount.units(&slots.limit, slots.look(0).remaining);
                assert_eq!(slots.acquire(id, cost), oracle.acquire(id, cost, now), "{cost} of {slots:?}");
            }
            Act::Renew { id } => assert_eq!(slots.renew(id), oracle.renew(id, now), "{slots:?}"),
            Act::Release { id } => {
                assert_eq!(concurrency::release(&mut slots.state, id), oracle.release(id), "{slots:?}");
            }
            Act::Relimit(change) => {
                if let Some(changed) = change.apply(&slots.limit) {
                    oracle::Oracle::relimit(&mut oracle, &changed, now);
                    slots.limit = changed;
                }
            }
        }
        assert_eq!(slots.look(0), oracle::assess(&oracle, 0, now, false), "{slots:?}");
    }
}

#[test]
fn every_decision_is_the_oracles() {
    for_all(300, (limits::concurrency(), scripts(Mix::Plain, 40)), agrees);
}

#[test]
fn every_decision_is_the_oracles_when_the_clock_steps() {
    for_all(300, (limits::concurrency(), scripts(Mix::ClockSteps, 40)), agrees);
}

#[test]
fn every_decision_is_the_oracles_when_the_limit_changes() {
    for_all(300, (limits::concurrency(), scripts(Mix::Changes, 40)), agrees);
}

/// Acquires and releases as the script says. After every step, calls `check` with the number of slots held,
/// from a separate list of holders, slot counts and expiry times.
fn holders(limit: &Limit, start: Micros, script: &[(Advance, Act)], check: impl Fn(&Slots, u64)) -> Slots {
    let mut slots = Slots::new(limit, start);
    let mut held: Vec<(u64, u64, Micros)> = Vec::new();
    for (advance, act) in script {
        slots.advance(*advance);
        let (now, until) = (slots.now, slots.now.plus(limit.period_us()));
        held.retain(|(_, _, until)| now < *until);
        match *act {
            Act::Acquire { id, .. } if held.iter().any(|(holder, ..)| *holder == id) => {}
            Act::Acquire { id, amount } => {
                let cost = amount.units(limit, slots.look(0).remaining);
                if slots.acquire(id, cost).allowed() && cost > 0 {
                    held.push((id, cost, until));
                }
            }
            Act::Renew { id } => {
                let holder = held.iter_mut().find(|(holder, ..)| *holder == id);
                assert_eq!(slots.renew(id), holder.is_some(), "only who holds can renew: {slots:?}");
                if let Some(holder) = holder {
                    holder.2 = until;
                }
            }
            Act::Release { id } => {
                concurrency::release(&mut slots.state, id);
                assert!(!concurrency::release(&mut slots.state, id), "released twice: {slots:?}");
                held.retain(|(holder, ..)| *holder != id);
            }
            Act::Relimit(_) => {}
        }
        check(&slots, held.iter().map(|(_, cost, _)| cost).sum());
    }
    slots
}

#[test]
fn never_more_than_max_at_once() {
    for_all(300, (limits::concurrency(), scripts(Mix::Charges, 60)), |(limit, (start, script))| {
        holders(&limit, start, &script, |slots, held| {
            assert!(held <= limit.requests(), "{held} of {slots:?}");
            assert_eq!(slots.look(0).remaining, limit.requests() - held, "{slots:?}");
        });
    });
}

#[test]
fn denied_until_retry_after_and_allowed_at_it() {
    for_all(300, (limits::concurrency(), scripts(Mix::Charges, 40)), |(limit, (start, script))| {
        holders(&limit, start, &script, |slots, held| {
            for cost in [1, limit.requests() - held + 1, limit.requests(), limit.requests() + 1] {
                let Outcome::Denied { retry_after_us } = slots.look(cost).outcome else { continue };
                assert_eq!(retry_after_us == NEVER_US, cost > limit.requests(), "{cost} of {slots:?}");
                if retry_after_us != NEVER_US {
                    let look_at = |us| Slots { now: slots.now.plus(us), ..slots.clone() }.look(cost);
                    assert!(!look_at(retry_after_us - 1).allowed(), "{cost} of {slots:?}");
                    assert!(look_at(retry_after_us).allowed(), "{cost} of {slots:?}");
                }
            }
        });
    });
}

#[test]
fn peeks_and_denials_change_nothing() {
    for_all(300, (limits::concurrency(), scripts(Mix::ClockSteps, 40)), |(limit, (start, script))| {
        let mut slots = Slots::new(&limit, start);
        for (advance, act) in script {
            slots.advance(advance);
            let Act::Acquire { id, amount } = act else { continue };
            let before = slots.state.clone();
            let cost = amount.units(&limit, slots.look(0).remaining);
            let verdict = slots.acquire(id, cost);
            assert!(verdict.allowed() && cost > 0 || slots.state == before, "{cost} of {slots:?}");
        }
    });
}

/// A slot is free at most one timeout after the clock step.
#[test]
fn a_clock_step_locks_nobody_out_for_longer_than_the_timeout() {
    let inputs = (limits::concurrency(), scripts(Mix::Charges, 20), clock_steps());
    for_all(300, inputs, |(limit, (start, script), step)| {
        let mut slots = holders(&limit, start, &script, |_, _| {});
        slots.advance(step);
        if limit.requests() > 0
            && let Some(us) = slots.acquire(99, 1).retry_after_us()
        {
            assert!(us <= limit.period_us(), "{us} us: {slots:?}");
            slots.now = slots.now.plus(us);
            assert!(slots.acquire(99, 1).allowed(), "{slots:?}");
        }
    });
}

/// The slots acquired before the step and after it are at most twice the limit.
#[test]
fn a_clock_step_admits_at_most_one_more_limit() {
    let inputs = (limits::concurrency(), scripts(Mix::Charges, 20), clock_steps());
    for_all(300, inputs, |(limit, (start, script), step)| {
        let mut slots = holders(&limit, start, &script, |_, _| {});
        slots.advance(step);
        let after: u64 = (100..130).map(|id| u64::from(slots.acquire(id, 1).allowed())).sum();
        assert!(after <= limit.requests(), "{slots:?}");
        let rest = slots.look(0).remaining;
        assert!(after + rest <= limit.requests(), "{slots:?}");
    });
}

const TIMEOUT_US: u64 = 60_000_000;
const START: Micros = Micros(1_700_000_000_000_000);

fn two_slots() -> Slots {
    Slots::new(&Limit::concurrency(2, Window::seconds(60)).unwrap(), START)
}

#[test]
fn a_crashed_holders_slot_returns_exactly_after_the_timeout() {
    let mut slots = two_slots();
    assert!(slots.acquire(1, 2).allowed());
    assert_eq!(slots.acquire(2, 1).outcome, Outcome::Denied { retry_after_us: TIMEOUT_US });
    slots.now = START.plus(TIMEOUT_US - 1);
    assert!(!slots.acquire(2, 1).allowed());
    slots.now = START.plus(TIMEOUT_US);
    assert!(slots.acquire(2, 1).allowed());
}

#[test]
fn renewing_starts_the_timeout_anew_until_it_is_over() {
    let mut slots = two_slots();
    assert!(slots.acquire(1, 2).allowed());
    slots.now = START.plus(TIMEOUT_US - 1);
    assert!(slots.renew(1));
    slots.now = START.plus(2 * TIMEOUT_US - 2);
    assert!(!slots.acquire(2, 1).allowed());
    slots.now = START.plus(2 * TIMEOUT_US - 1);
    assert!(!slots.renew(1), "the slots have returned");
    assert!(slots.acquire(2, 1).allowed());
}

#[test]
fn releasing_frees_at_once_and_only_once() {
    let mut slots = two_slots();
    assert!(slots.acquire(1, 1).allowed());
    assert!(slots.acquire(2, 1).allowed());
    assert!(!slots.acquire(3, 1).allowed());
    assert!(concurrency::release(&mut slots.state, 1));
    assert!(!concurrency::release(&mut slots.state, 1));
    assert!(slots.acquire(3, 1).allowed());
    assert!(!slots.renew(1));
    assert!(!concurrency::release(&mut slots.state, 1));
    assert!(!slots.acquire(4, 1).allowed(), "a second release must not free what is another's");
}
