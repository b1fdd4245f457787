//! One key under one limit, driven through a random schedule.

use tidegate_core::{Limit, Micros, NEVER_US, State, Verdict};
use tidegate_testkit::schedule::{Action, Schedule, Step};

/// A limit, the state of one key, and the time.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) limit: Limit,
    pub(crate) state: State,
    pub(crate) now: Micros,
    /// Where the last denial said to try again.
    pub(crate) retry_at: Micros,
}

/// A step whose amounts have become numbers.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
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

    /// What would become of a charge now.
    pub(crate) fn look(&self, cost: u64, hold: bool) -> Verdict {
        self.look_at(self.now, cost, hold)
    }

    /// What would become of a charge at another time.
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

    /// Lets time pass, and says what is to be done then.
    pub(crate) fn arrive(&mut self, step: &Step) -> Deed {
        self.now = step.advance.from(&self.limit, self.now, self.retry_at);
        let units = |amount: tidegate_testkit::schedule::Amount| {
            amount.units(&self.limit, self.look(0, true).remaining)
        };
        match step.action {
            Action::Charge { amount, hold } => Deed::Charge { cost: units(amount), hold },
            Action::Take(amount) => Deed::Take { cost: units(amount) },
            Action::Refund(amount) => Deed::Refund { cost: units(amount) },
            Action::Peek => Deed::Peek,
            Action::Relimit(change) => match change.apply(&self.limit) {
                Some(limit) => Deed::Relimit { limit },
                None => Deed::Peek,
            },
        }
    }

    /// Does it.
    pub(crate) fn perform(&mut self, deed: &Deed) -> Verdict {
        match deed {
            Deed::Charge { cost, hold } => return self.charge(*cost, *hold),
            Deed::Take { cost } => self.limit.take(&mut self.state, *cost, self.now),
            Deed::Refund { cost } => self.limit.give_back(&mut self.state, *cost, self.now),
            Deed::Relimit { limit } => self.relimit(limit),
            Deed::Peek => {}
        }
        self.look(0, false)
    }

    /// Goes on under other numbers.
    pub(crate) fn relimit(&mut self, limit: &Limit) {
        self.limit = limit.clone();
        self.limit.carry_on(&mut self.state, self.now);
    }

    /// Runs a schedule, and calls `check` before it and after every step.
    pub(crate) fn run(limit: &Limit, schedule: &Schedule, mut check: impl FnMut(&Self)) -> Self {
        let mut counter = Self::new(limit, schedule.start);
        check(&counter);
        for step in &schedule.steps {
            let deed = counter.arrive(step);
            counter.perform(&deed);
            check(&counter);
        }
        counter
    }

    /// Costs at which answers may change.
    pub(crate) fn telling_costs(&self) -> [u64; 7] {
        let remaining = self.look(0, true).remaining;
        let burst = self.limit.burst();
        [0, 1, remaining, remaining + 1, burst / 2, burst, burst + 1]
    }

    /// Whether any cost at all can ever fit.
    pub(crate) fn ever_admits(&self) -> bool {
        self.limit.requests() > 0
    }

    /// Charges `cost` until it fits, each time when the last denial said to try again. How long that
    /// took, in microseconds.
    pub(crate) fn locked_out_us(&self, cost: u64) -> u64 {
        let mut counter = self.clone();
        for _ in 0..10 {
            match counter.charge(cost, false).retry_after_us() {
                None => return counter.now.since(self.now),
                Some(NEVER_US) => panic!("{cost} never fits {:?}", self.limit),
                Some(retry_after_us) => counter.now = counter.now.plus(retry_after_us),
            }
        }
        panic!("denied ten times in a row, each time at what the denial before had said: {self:?}");
    }

    /// The longest anyone waits for the limit to be untouched again.
    pub(crate) fn longest_wait_us(&self) -> u64 {
        use tidegate_core::Algorithm;
        let limit = &self.limit;
        match limit.algorithm() {
            // What was charged counts to the end of its window, then less and less through the next.
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
