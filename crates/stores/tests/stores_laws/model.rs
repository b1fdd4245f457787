//! The plainest store there is: a map of states, on one thread, driven through the core.

use std::collections::HashMap;

use tidegate_core::algorithm::concurrency;
use tidegate_core::{Key, Micros, State, Verdict};
use tidegate_stores::{Charge, Correction, Intent, Verdicts, blocked};

#[derive(Clone, Default)]
pub(crate) struct Model(HashMap<Key, State>);

impl Model {
    pub(crate) fn settle(&mut self, charges: &[Charge<'_>], intent: Intent, now: Micros) -> Verdicts {
        let mut trial = self.clone();
        let assess = |charge: &Charge<'_>| {
            let verdict = trial.assess(charge, now);
            if verdict.allowed() || charge.count_denied {
                trial.take(charge, now);
            }
            verdict
        };
        let verdicts: Verdicts = charges.iter().map(assess).collect();
        let blocked = blocked(charges, &verdicts);
        if intent == Intent::Take {
            for (charge, verdict) in charges.iter().zip(&verdicts).filter(|(charge, _)| charge.cost > 0) {
                if charge.count_denied || verdict.allowed() && !blocked {
                    self.take(charge, now);
                } else if !self.assess(charge, now).allowed()
                    && let Some(state) = self.0.get_mut(&charge.key)
                {
                    charge.limit.carry_on(state, now);
                }
            }
        }
        let answer = |(charge, verdict): (&Charge<'_>, &Verdict)| {
            let taken = intent == Intent::Take && charge.count_denied && charge.cost > 0;
            if taken && !verdict.allowed() {
                let again = self.assess(charge, now);
                if !again.allowed() {
                    return again;
                }
            }
            if blocked || taken && !verdict.allowed() {
                let stands = self.assess(&Charge { cost: 0, ..*charge }, now);
                return Verdict { outcome: verdict.outcome, ..stands };
            }
            *verdict
        };
        charges.iter().zip(&verdicts).map(answer).collect()
    }

    /// Takes the largest cost that is allowed, and says how much that is; if none is, what denies a cost of 1.
    pub(crate) fn take_up_to(&mut self, charge: &Charge<'_>, now: Micros) -> (u64, Verdict) {
        let (mut fits, mut too_much) = (0, charge.cost.saturating_add(1));
        while too_much - fits > 1 {
            let cost = fits + (too_much - fits) / 2;
            if self.assess(&Charge { cost, ..*charge }, now).allowed() {
                fits = cost;
            } else {
                too_much = cost;
            }
        }
        let cost = if fits == 0 { charge.cost.min(1) } else { fits };
        (fits, self.settle(&[Charge { cost, ..*charge }], Intent::Take, now)[0])
    }

    pub(crate) fn give_back(&mut self, charges: &[Charge<'_>], now: Micros) {
        for charge in charges {
            if let Some(state) = self.0.get_mut(&charge.key) {
                charge.limit.give_back(state, charge.cost, now);
            }
        }
    }

    pub(crate) fn correct(&mut self, charge: &Charge<'_>, correction: Correction, now: Micros) -> Verdict {
        let limit = charge.limit;
        match correction {
            Correction::Look => {}
            Correction::GiveBack(taken) => {
                if let Some(state) = self.0.get_mut(&charge.key) {
                    limit.give_back_taken(state, charge.cost, taken, now);
                }
            }
            Correction::Overdraw => {
                let state = self.0.entry(charge.key).or_insert_with(|| limit.fresh());
                limit.overdraw(state, charge.cost, now);
            }
        }
        self.assess(&Charge { cost: 0, ..*charge }, now)
    }

    pub(crate) fn renew(&mut self, slot: &Charge<'_>, now: Micros) -> bool {
        match self.0.get_mut(&slot.key) {
            Some(State::Concurrency(state)) => concurrency::renew(slot.limit, state, slot.lease, now),
            _ => false,
        }
    }

    pub(crate) fn release(&mut self, slot: &Charge<'_>, now: Micros) -> bool {
        let held = self.renew(slot, now);
        if let Some(State::Concurrency(state)) = self.0.get_mut(&slot.key) {
            concurrency::release(state, slot.lease);
        }
        held
    }

    fn assess(&self, charge: &Charge<'_>, now: Micros) -> Verdict {
        let Charge { limit, cost, hold, .. } = *charge;
        match self.0.get(&charge.key) {
            Some(state) => limit.assess(state, cost, now, hold),
            None => limit.assess(&limit.fresh(), cost, now, hold),
        }
    }

    fn take(&mut self, charge: &Charge<'_>, now: Micros) {
        let Charge { limit, cost, lease, .. } = *charge;
        if cost == 0 {
            return;
        }
        match self.0.entry(charge.key).or_insert_with(|| limit.fresh()) {
            State::Concurrency(leases) => {
                concurrency::acquire(limit, leases, lease, cost, now);
            }
            state => limit.take(state, cost, now),
        }
    }
}
