//! Repeats a batch locally, from the states that the script returned, to compute every verdict.

use smallvec::SmallVec;
use tidegate_core::algorithm::concurrency;
use tidegate_core::{Limit, Micros, State, Verdict};

use super::batch::{Batch, BatchCharge};
use crate::charge::{Grant, Intent, Verdicts, blocked_by};

/// The counters as they were when the script ran, plus the changes by earlier requests of the batch.
pub(super) struct Replay<'a> {
    pub(super) batch: &'a Batch,
    /// The state of each counter.
    pub(super) states: Vec<State>,
    /// The server's time.
    pub(super) now: Micros,
}

impl Replay<'_> {
    /// Settles a request as the script did, and returns the verdict on each of its charges.
    pub(super) fn settle(&mut self, charges: &[BatchCharge], intent: Intent) -> Verdicts {
        let verdicts = self.assess_all(charges);
        let denied = blocked_by(charges.iter().map(|charge| charge.force).zip(&verdicts));
        if intent == Intent::Take {
            for (charge, verdict) in charges.iter().zip(&verdicts).filter(|(charge, _)| charge.cost > 0) {
                if charge.count_denied || verdict.allowed() && !denied {
                    self.take(charge);
                } else if !verdict.allowed() && !self.assess(charge, charge.cost).allowed() {
                    self.carry_on(charge);
                }
            }
        }
        let is_counted =
            |charge: &BatchCharge| intent == Intent::Take && charge.count_denied && charge.cost > 0;
        if !denied && !charges.iter().any(is_counted) {
            return verdicts;
        }
        let standing = |(charge, verdict): (&BatchCharge, &Verdict)| {
            let taken_unfit = is_counted(charge) && !verdict.allowed();
            if taken_unfit {
                let again = self.assess(charge, charge.cost);
                if !again.allowed() {
                    return again;
                }
            }
            if denied || taken_unfit {
                return Verdict { outcome: verdict.outcome, ..self.assess(charge, 0) };
            }
            *verdict
        };
        charges.iter().zip(&verdicts).map(standing).collect()
    }

    /// Takes as much of a charge as fits, as the script did.
    pub(super) fn take_up_to(&mut self, charge: &BatchCharge) -> Grant {
        let limit = self.batch.limit(&self.batch.counters[charge.counter as usize]);
        let state = &mut self.states[charge.counter as usize];
        let (units, verdict) = limit.charge_up_to(state, charge.cost, self.now);
        Grant { units, verdict, at: self.now }
    }

    /// Returns the verdict of each charge's limit on a cost of 0.
    pub(super) fn peek(&self, charges: &[BatchCharge]) -> Verdicts {
        charges.iter().map(|charge| self.assess(charge, 0)).collect()
    }

    /// Assesses each charge as if those before it had been taken, and leaves all counters as they were.
    fn assess_all(&mut self, charges: &[BatchCharge]) -> Verdicts {
        let is_repeated = |(number, charge): (usize, &BatchCharge)| {
            charges[..number].iter().any(|earlier| earlier.counter == charge.counter)
        };
        if !charges.iter().enumerate().any(is_repeated) {
            return charges.iter().map(|charge| self.assess(charge, charge.cost)).collect();
        }
        let state = |charge: &BatchCharge| self.states[charge.counter as usize].clone();
        let before: SmallVec<[_; 4]> = charges.iter().map(state).collect();
        let assess = |charge: &BatchCharge| {
            let verdict = self.assess(charge, charge.cost);
            if charge.cost > 0 && (verdict.allowed() || charge.count_denied) {
                self.take(charge);
            }
            verdict
        };
        let verdicts = charges.iter().map(assess).collect();
        for (charge, state) in charges.iter().zip(before) {
            self.states[charge.counter as usize] = state;
        }
        verdicts
    }

    fn limit(&self, charge: &BatchCharge) -> &Limit {
        self.batch.limit(&self.batch.counters[charge.counter as usize])
    }

    fn assess(&self, charge: &BatchCharge, cost: u64) -> Verdict {
        self.limit(charge).assess(&self.states[charge.counter as usize], cost, self.now, charge.hold)
    }

    fn take(&mut self, charge: &BatchCharge) {
        let limit = self.batch.limit(&self.batch.counters[charge.counter as usize]);
        match &mut self.states[charge.counter as usize] {
            State::Concurrency(leases) => {
                concurrency::acquire(limit, leases, charge.lease, charge.cost, self.now);
            }
            state => limit.take(state, charge.cost, self.now),
        }
    }

    fn carry_on(&mut self, charge: &BatchCharge) {
        let limit = self.batch.limit(&self.batch.counters[charge.counter as usize]);
        limit.carry_on(&mut self.states[charge.counter as usize], self.now);
    }
}
