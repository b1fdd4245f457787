//! The shared store: the product's algorithms over plain states, and what clients were promised.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::{Key, Limit, Micros, State};
use tidegate_stores::{Correction, Grant, Intent};

use crate::network::{Operation, OwnedCharge, Reply};

/// How often the states are copied, for failovers.
const COPY_EVERY_US: u64 = 10_000;
/// How many copies are kept.
const COPIES: usize = 200;

/// The counters of the store.
#[derive(Default)]
pub(crate) struct Shared {
    states: BTreeMap<Key, State>,
    copies: VecDeque<(Micros, BTreeMap<Key, State>)>,
    /// Units that nodes have taken to spend them later.
    pub(crate) leased: u64,
}

/// What a call has admitted at once: requests that were settled.
pub(crate) type Admitted = Vec<(Key, u64)>;

impl Shared {
    fn state(&mut self, charge: &OwnedCharge) -> &mut State {
        self.states.entry(charge.key).or_insert_with(|| charge.limit.fresh())
    }

    /// Does what a call asks for.
    pub(crate) fn perform(&mut self, operation: &Operation, now: Micros) -> (Reply, Admitted) {
        let mut admitted = Admitted::new();
        let reply = match operation {
            Operation::Settle(charges, intent) => {
                let assess = |charge: &OwnedCharge| {
                    let fresh = charge.limit.fresh();
                    let state = self.states.get(&charge.key).unwrap_or(&fresh);
                    charge.limit.assess(state, charge.cost, now, false)
                };
                let verdicts: smallvec::SmallVec<[_; 4]> = charges.iter().map(assess).collect();
                if *intent == Intent::Take && verdicts.iter().all(tidegate_core::Verdict::allowed) {
                    for charge in charges {
                        charge.limit.take(self.state(charge), charge.cost, now);
                        admitted.push((charge.key, charge.cost));
                    }
                }
                Reply::Verdicts(verdicts, now)
            }
            Operation::TakeUpTo(charge) => {
                let (units, verdict) = charge.limit.charge_up_to(self.state(charge), charge.cost, now);
                self.leased += units;
                Reply::Grant(Grant { units, verdict, at: now })
            }
            Operation::Correct(corrections) => {
                let correct = |(charge, how): &(OwnedCharge, Correction)| {
                    let state = self.state(charge);
                    match how {
                        Correction::Look => {}
                        Correction::GiveBack(taken) => {
                            charge.limit.give_back_taken(state, charge.cost, *taken, now);
                        }
                        Correction::Overdraw => charge.limit.overdraw(state, charge.cost, now),
                    }
                    charge.limit.assess(state, 0, now, false)
                };
                Reply::Verdicts(corrections.iter().map(correct).collect(), now)
            }
        };
        (reply, admitted)
    }

    /// Copies the states if that is due, so that a failover can go back to them.
    pub(crate) fn copy(&mut self, now: Micros) {
        if self.copies.back().is_some_and(|(at, _)| now.since(*at) < COPY_EVERY_US) {
            return;
        }
        if self.copies.len() == COPIES {
            self.copies.pop_front();
        }
        self.copies.push_back((now, self.states.clone()));
    }

    /// Goes back to the states of about `lost_us` ago.
    pub(crate) fn fail_over(&mut self, now: Micros, lost_us: u64) {
        while self.copies.len() > 1 && self.copies.back().is_some_and(|(at, _)| now.since(*at) < lost_us) {
            self.copies.pop_back();
        }
        self.states = self.copies.back().map_or_else(BTreeMap::new, |(_, states)| states.clone());
    }
}

/// What clients were promised: the limit, charged at the moment that a unit is used.
pub(crate) struct Promise {
    limit: Limit,
    states: BTreeMap<Key, State>,
}

impl Promise {
    pub(crate) fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), states: BTreeMap::new() }
    }

    /// Returns whether the limit allows a request.
    pub(crate) fn fits(&self, key: Key, cost: u64, now: Micros) -> bool {
        let fresh = self.limit.fresh();
        self.limit.assess(self.states.get(&key).unwrap_or(&fresh), cost, now, false).allowed()
    }

    /// Notes that units were used. Returns how many of them are more than the limit promises.
    pub(crate) fn admit(&mut self, key: Key, cost: u64, now: Micros) -> u64 {
        let over = if self.fits(key, cost, now) { 0 } else { cost };
        let state = self.states.entry(key).or_insert_with(|| self.limit.fresh());
        self.limit.take(state, cost, now);
        over
    }
}
