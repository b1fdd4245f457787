//! One key under one limit, driven through a random schedule.

use tidegate_core::{Limit, Micros, NEVER_US, State, Verdict};
use tidegate_testkit::schedule::{Action, Schedule, Step};

/// A limit, the state of one key, and the time.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) limit: Limit,
    pub(crate) state: State,
    pub(crate) now: Micros,
    /// The time at which the last denied charge fits.
    pub(crate) retry_at: Micros,
}

/// A step of a schedule with its amounts resolved to numbers.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Charge { cost: u64, hold: bool },
    Take { cost: u64 },
    Refund { cost: u64 },
    Relimit { limit: Limit },
    Peek,
}

impl Counter {
    pub(crate) fn new(limit: &Limit, start: Micros) -> Self {
        Self { limit: limit.clone(), state: limit.fresh(), now: start, retry_at: start }
    }

    /// Returns the verdict of a charge now, without charging.
    pub(crate) fn look(&self, cost: u64, hold: bool) -> Verdict {
        self.look_at(self.now, cost, hold)
    }

    /// Returns the verdict of a charge at another time, without charging.
    pub(crate) fn look_at(&self, at: Micros, cost: u64, hold: bool) -> Verdict {
        self.limit.assess(&self.state, cost, at, hold)
    }

    /// Charges if it fits.
    pub(crate) fn charge(&mut self, cost: u64, hold: bool) -> Verdict {
        let verdict = if hold { self.hold(cost) } else { self.limit.charge(&mut self.state, cost, self.now) };
        if let Some(retry_after_us) = verdict.retry_after_us().filter(|us| *us != NEVER_US) {
            self.retry_at = self.now.plus(retry_after_us);
        }
        verdict
    }

    fn hold(&mut self, cost: u64) -> Verdict {
        let verdict = self.look(cost, true);
        if verdict.allowed() && cost > 0 {
            self.limit.take(&mut self.state, cost, self.now);
        } else if cost > 0 {
            self.limit.carry_on(&mut self.state, self.now);
        }
        verdict
    }

    /// Advances the time as the step says, and returns its operation.
    pub(crate) fn arrive(&mut self, step: &Step) -> Operation {
        self.now = step.advance.from(&self.limit, self.now, self.retry_at);
        let units = |amount: tidegate_testkit::schedule::Amount| {
            amount.units(&self.limit, self.look(0, true).remaining)
        };
        match step.action {
            Action::Charge { amount, hold } => Operation::Charge { cost: units(amount), hold },
            Action::Take(amount) => Operation::Take { cost: units(amount) },
            Action::Refund(amount) => Operation::Refund { cost: units(amount) },
            Action::Peek => Operation::Peek,
            Action::Relimit(change) => match change.apply(&self.limit) {
                Some(limit) => Operation::Relimit { limit },
                None => Operation::Peek,
            },
        }
    }

    /// Performs an operation.
    pub(crate) fn perform(&mut self, operation: &Operation) -> Verdict {
        match operation {
            Operation::Charge { cost, hold } => return self.charge(*cost, *hold),
            Operation::Take { cost } => self.limit.take(&mut self.state, *cost, self.now),
            Operation::Refund { cost } => self.limit.give_back(&mut self.state, *cost, self.now),
            Operation::Relimit { limit } => self.relimit(limit),
            Operation::Peek => {}
        }
        self.look(0, false)
    }

    /// Changes the numbers of the limit. The counter continues.
    pub(crate) fn relimit(&mut self, limit: &Limit) {
        self.limit = limit.clone();
        self.limit.carry_on(&mut self.state, self.now);
    }

    /// Runs a schedule, and calls `check` before it and after every step.
    pub(crate) fn run(limit: &Limit, schedule: &Schedule, mut check: impl FnMut(&Self)) -> Self {
        let mut counter = Self::new(limit, schedule.start);
        check(&counter);
        for step in &schedule.steps {
            let operation = counter.arrive(step);
            counter.perform(&operation);
            check(&counter);
        }
        counter
    }

    /// Returns the costs at which a verdict may change.
    pub(crate) fn telling_costs(&self) -> [u64; 7] {
        let remaining = self.look(0, true).remaining;
        let burst = self.limit.burst();
        [0, 1, remaining, remaining + 1, burst / 2, burst, burst + 1]
    }

    /// Returns whether any cost can ever fit.
    pub(crate) fn ever_admits(&self) -> bool {
        self.limit.requests() > 0
    }

    /// Charges `cost` until it fits, retrying each time at the `retry_after_us` of the last denial. Returns
    /// the microseconds that this took.
    pub(crate) fn locked_out_us(&self, cost: u64) -> u64 {
        let mut counter = self.clone();
        for _ in 0..10 {
            match counter.charge(cost, false).retry_after_us() {
                None => return counter.now.since(self.now),
                Some(NEVER_US) => panic!("{cost} never fits {:?}", self.limit),
                Some(retry_after_us) => counter.now = counter.now.plus(retry_after_us),
            }
        }
        panic!("denied ten times in a row, each time at the retry_after_us of the denial before: {self:?}");
    }

    /// Returns the longest time until the limit is unused again, in microseconds.
    pub(crate) fn longest_wait_us(&self) -> u64 {
        use tidegate_core::Algorithm;
        let limit = &self.limit;
        match limit.algorithm() {
            // A charge counts fully until the end of its window, then less and less during the next one.
            Algorithm::SlidingWindow => 2 * limit.period_us(),
            Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
                let full = u128::from(limit.burst()) * u128::from(limit.period_us());
                full.div_ceil(u128::from(limit.requests())) as u64
            }
            Algorithm::FixedWindow
            | Algorithm::SubWindows { .. }
            | Algorithm::SlidingLog
            | Algorithm::Concurrency => limit.period_us(),
        }
    }
}
