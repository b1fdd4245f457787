//! Records a vector while an oracle performs its steps.

use tidegate_core::{Algorithm, Limit, Micros, Verdict};

use super::{Expect, LimitSpec, Op, Step, Vector};
use crate::oracle::{self, Concurrency, Oracle};

/// A vector that is being recorded, and its oracle.
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
    /// Starts a vector with this name, for a key that was never charged.
    pub fn new(name: &str, limit: &Limit, start: Micros) -> Self {
        let oracle = match limit.algorithm() {
            Algorithm::Concurrency => Subject::Acquired(Concurrency::new(limit)),
            _ => Subject::Charged(oracle::of(limit)),
        };
        let vector = Vector { name: name.to_owned(), limit: limit.into(), steps: Vec::new() };
        Self { vector, limit: limit.clone(), oracle, now: start, last: None }
    }

    /// Returns the recorded vector.
    pub fn finish(self) -> Vector {
        self.vector
    }

    /// Returns the time of the next step.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// Returns the current limit.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the last verdict, if any.
    pub fn last(&self) -> Option<Verdict> {
        self.last
    }

    /// Sets the time of the next step.
    #[must_use]
    pub fn at(mut self, now: Micros) -> Self {
        self.now = now;
        self
    }

    /// Advances the time of the next step by `us` microseconds.
    #[must_use]
    pub fn after(self, us: u64) -> Self {
        let now = self.now.plus(us);
        self.at(now)
    }

    /// Sets the time of the next step back by `us` microseconds.
    #[must_use]
    pub fn before(self, us: u64) -> Self {
        let now = self.now.minus(us);
        self.at(now)
    }

    /// Advances the time to when the charge that was just denied fits, or `sooner_us` microseconds before.
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

    fn expect_verdict(mut self, op: Op, cost: Option<u64>, verdict: Verdict) -> Self {
        self.last = Some(verdict);
        self.step(op, cost).expect = Some(verdict.into());
        self
    }

    fn peek_after(mut self, op: Op, cost: Option<u64>) -> Self {
        let now = self.now;
        let verdict = oracle::assess(self.oracle.as_dyn(), 0, now, false);
        self.expect_verdict(op, cost, verdict)
    }

    /// Charges if it fits, for a caller that cannot hold the request.
    #[must_use]
    pub fn charge(mut self, cost: u64) -> Self {
        let verdict = oracle::charge(self.oracle.as_dyn(), cost, self.now, false);
        self.expect_verdict(Op::Charge, Some(cost), verdict)
    }

    /// Charges if it fits, for a caller that can hold the request.
    #[must_use]
    pub fn hold(mut self, cost: u64) -> Self {
        let verdict = oracle::charge(self.oracle.as_dyn(), cost, self.now, true);
        self.expect_verdict(Op::Hold, Some(cost), verdict)
    }

    /// Charges, whether it fits or not.
    #[must_use]
    pub fn take(mut self, cost: u64) -> Self {
        let now = self.now;
        self.oracle.as_dyn().take(cost, now);
        self.peek_after(Op::Take, Some(cost))
    }

    /// Refunds `cost`.
    #[must_use]
    pub fn refund(mut self, cost: u64) -> Self {
        let now = self.now;
        self.oracle.as_dyn().give_back(cost, now);
        self.peek_after(Op::Refund, Some(cost))
    }

    /// Charges 0, for a caller that cannot hold the request.
    #[must_use]
    pub fn peek(self) -> Self {
        self.peek_after(Op::Peek, None)
    }

    /// Changes the numbers of the limit. The next step must be a charge at the same time, because that is
    /// when an implementation notices the change.
    #[must_use]
    pub fn relimit(mut self, limit: &Limit) -> Self {
        let now = self.now;
        self.oracle.as_dyn().relimit(limit, now);
        self.limit = limit.clone();
        self.step(Op::Relimit, None).limit = Some(LimitSpec::from(limit));
        self
    }

    /// Acquires slots for `id` if they are free.
    ///
    /// # Panics
    /// Panics if the algorithm of the limit is not `concurrency`.
    #[must_use]
    pub fn acquire(mut self, id: u64, cost: u64) -> Self {
        let now = self.now;
        let verdict = self.slots().acquire(id, cost, now);
        self = self.expect_verdict(Op::Acquire, Some(cost), verdict);
        self.identified(id)
    }

    /// Restarts the timeout of the slots of `id`.
    #[must_use]
    pub fn renew(mut self, id: u64) -> Self {
        let now = self.now;
        let renewed = self.slots().renew(id, now);
        self.step(Op::Renew, None).expect = Some(Expect::whether(renewed));
        self.identified(id)
    }

    /// Releases the slots of `id`.
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
