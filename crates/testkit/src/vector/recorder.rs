//! Writes a vector down while an oracle lives through it.

use tidegate_core::{Algorithm, Limit, Micros, Verdict};

use super::{Expect, LimitSpec, Op, Step, Vector};
use crate::oracle::{self, Concurrency, Oracle};

/// A vector in the making, and its oracle.
pub struct Recorder {
    vector: Vector,
    limit: Limit,
    oracle: Subject,
    now: Micros,
    last: Option<Verdict>,
}

enum Subject {
    Charged(Box<dyn Oracle>),
    Acquired(Concurrency),
}

impl Subject {
    fn as_dyn(&mut self) -> &mut dyn Oracle {
        match self {
            Self::Charged(oracle) => oracle.as_mut(),
            Self::Acquired(oracle) => oracle,
        }
    }
}

impl Recorder {
    /// A vector of that name, for a key that was never charged.
    pub fn new(name: &str, limit: &Limit, start: Micros) -> Self {
        let oracle = match limit.algorithm() {
            Algorithm::Concurrency => Subject::Acquired(Concurrency::new(limit)),
            _ => Subject::Charged(oracle::of(limit)),
        };
        let vector = Vector { name: name.to_owned(), limit: limit.into(), steps: Vec::new() };
        Self { vector, limit: limit.clone(), oracle, now: start, last: None }
    }

    /// The vector.
    pub fn finish(self) -> Vector {
        self.vector
    }

    /// The time of the next step.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The limit as it is now.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// What the last step answered, if it was a verdict.
    pub fn last(&self) -> Option<Verdict> {
        self.last
    }

    /// The next step is at this time.
    #[must_use]
    pub fn at(mut self, now: Micros) -> Self {
        self.now = now;
        self
    }

    /// The next step is so much later.
    #[must_use]
    pub fn after(self, us: u64) -> Self {
        let now = self.now.plus(us);
        self.at(now)
    }

    /// The next step is so much earlier.
    #[must_use]
    pub fn before(self, us: u64) -> Self {
        let now = self.now.minus(us);
        self.at(now)
    }

    /// The next step is when the denial before said to try again, or a microsecond sooner.
    #[must_use]
    pub fn at_retry(self, sooner_us: u64) -> Self {
        let retry_us = self.last.and_then(|verdict| verdict.retry_after_us());
        let wait_us = retry_us.filter(|us| *us < 1 << 53).unwrap_or(0);
        self.after(wait_us.saturating_sub(sooner_us))
    }

    fn step(&mut self, op: Op, cost: Option<u64>) -> &mut Step {
        let step = Step { at_us: self.now.0, op, cost, id: None, limit: None, expect: None };
        self.vector.steps.push(step);
        self.vector.steps.last_mut().expect("it was pushed just now")
    }

    fn answer(mut self, op: Op, cost: Option<u64>, verdict: Verdict) -> Self {
        self.last = Some(verdict);
        self.step(op, cost).expect = Some(verdict.into());
        self
    }

    fn peek_after(mut self, op: Op, cost: Option<u64>) -> Self {
        let now = self.now;
        let verdict = oracle::assess(self.oracle.as_dyn(), 0, now, false);
        self.answer(op, cost, verdict)
    }

    /// Charges if it fits.
    #[must_use]
    pub fn charge(mut self, cost: u64) -> Self {
        let verdict = oracle::charge(self.oracle.as_dyn(), cost, self.now, false);
        self.answer(Op::Charge, Some(cost), verdict)
    }

    /// Charges if it fits, for one who can hold the request.
    #[must_use]
    pub fn hold(mut self, cost: u64) -> Self {
        let verdict = oracle::charge(self.oracle.as_dyn(), cost, self.now, true);
        self.answer(Op::Hold, Some(cost), verdict)
    }

    /// Charges whether it fits or not.
    #[must_use]
    pub fn take(mut self, cost: u64) -> Self {
        let now = self.now;
        self.oracle.as_dyn().take(cost, now);
        self.peek_after(Op::Take, Some(cost))
    }

    /// Gives back.
    #[must_use]
    pub fn refund(mut self, cost: u64) -> Self {
        let now = self.now;
        self.oracle.as_dyn().give_back(cost, now);
        self.peek_after(Op::Refund, Some(cost))
    }

    /// Looks.
    #[must_use]
    pub fn peek(self) -> Self {
        self.peek_after(Op::Peek, None)
    }

    /// Changes the limit's numbers. The next step must be a charge at the same time: that is when an
    /// implementation sees the change.
    #[must_use]
    pub fn relimit(mut self, limit: &Limit) -> Self {
        let now = self.now;
        self.oracle.as_dyn().relimit(limit, now);
        self.limit = limit.clone();
        self.step(Op::Relimit, None).limit = Some(LimitSpec::from(limit));
        self
    }

    /// Takes slots under `id`.
    ///
    /// # Panics
    /// If the limit is not one of concurrency.
    #[must_use]
    pub fn acquire(mut self, id: u64, cost: u64) -> Self {
        let now = self.now;
        let verdict = self.slots().acquire(id, cost, now);
        self = self.answer(Op::Acquire, Some(cost), verdict);
        self.identified(id)
    }

    /// Renews the slots of `id`.
    #[must_use]
    pub fn renew(mut self, id: u64) -> Self {
        let now = self.now;
        let renewed = self.slots().renew(id, now);
        self.step(Op::Renew, None).expect = Some(Expect::whether(renewed));
        self.identified(id)
    }

    /// Returns the slots of `id`.
    #[must_use]
    pub fn release(mut self, id: u64) -> Self {
        let released = self.slots().release(id);
        self.step(Op::Release, None).expect = Some(Expect::whether(released));
        self.identified(id)
    }

    fn slots(&mut self) -> &mut Concurrency {
        match &mut self.oracle {
            Subject::Acquired(slots) => slots,
            Subject::Charged(_) => panic!("{} has no slots", self.limit.algorithm().name()),
        }
    }

    fn identified(mut self, id: u64) -> Self {
        if let Some(step) = self.vector.steps.last_mut() {
            step.id = Some(id);
        }
        self
    }
}
