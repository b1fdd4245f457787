//! Converts the script's reply to the result of each request of a batch.

use redis::Value;
use tidegate_core::{Micros, State};

use super::batch::{Batch, BatchRequest, Completion, Operation, PartialSettlement};
use super::replay::Replay;
use super::state;
use crate::error::StoreError;

/// The script's reply for a counter that another program has overwritten.
const FOREIGN: Value = Value::Int(-1);

/// The parsed reply of the script.
struct Found<'v> {
    /// The server's time.
    now: Micros,
    /// The state of each counter before anything was charged; a fresh state for a foreign counter.
    states: Vec<State>,
    /// Whether each counter is foreign.
    foreign: Vec<bool>,
    /// Whether each slot was held.
    slots: &'v [Value],
}

impl Batch {
    /// Completes every request from the script's reply: the time, each counter in the order of `wire`, then the
    /// slots. Returns how many requests failed because they need a foreign counter.
    ///
    /// # Errors
    /// Returns an error if the reply has another shape. Every request has failed then.
    pub(super) fn conclude(mut self, wire: &[u32], found: &[Value]) -> Result<u64, StoreError> {
        let Some(Found { now, states, foreign, slots }) = self.read(wire, found) else {
            self.fail(&StoreError::Garbled);
            return Err(StoreError::Garbled);
        };
        let mut requests = std::mem::take(&mut self.requests);
        let any_foreign = foreign.contains(&true);
        let is_foreign = |request: &BatchRequest| {
            any_foreign && self.charges_of(request).iter().any(|charge| foreign[charge.counter as usize])
        };
        let mut failed = 0;
        for request in requests.iter_mut().filter(|request| is_foreign(request)) {
            failed += 1;
            request.finish(Err(StoreError::Foreign));
        }
        let mut replay = Replay { batch: &self, states, now };
        let mut held = slots.iter().map(|slot| *slot == Value::Int(1));
        // Requests that charge nothing see the counters before anything was charged, and after everything was
        // corrected.
        for request in requests.iter_mut().filter(|request| !request.takes()) {
            let completion = self.complete(request, &mut replay, &mut held);
            request.finish(Ok(completion));
        }
        // In the order in which the script has charged them.
        for request in requests.iter_mut().filter(|request| request.takes() && !is_foreign(request)) {
            let completion = self.complete(request, &mut replay, &mut held);
            request.finish(Ok(completion));
        }
        Ok(failed)
    }

    /// Returns the result of a request. `held` tells for each renewed or released slot whether it was held.
    fn complete(
        &self,
        request: &BatchRequest,
        replay: &mut Replay<'_>,
        held: &mut impl Iterator<Item = bool>,
    ) -> Completion {
        let charges = self.charges_of(request);
        match request.operation {
            Operation::Settle(intent) => Completion::Settled(replay.settle(charges, intent)),
            Operation::SettleSome(intent) => {
                let (before, now) = (replay.peek(charges), replay.now);
                let verdicts = replay.settle(charges, intent);
                Completion::SettledSome(Box::new(PartialSettlement { verdicts, before, now }))
            }
            Operation::TakeUpTo => Completion::Granted(replay.take_up_to(&charges[0])),
            Operation::Correct(_) => Completion::Settled(replay.peek(charges)),
            Operation::GiveBack { .. } => Completion::GivenBack,
            Operation::Renew | Operation::Release => {
                Completion::Slot(held.take(charges.len()).fold(true, |all, held| all & held))
            }
        }
    }

    /// Parses the script's reply; `None` if any part of it has another shape.
    fn read<'v>(&self, wire: &[u32], found: &'v [Value]) -> Option<Found<'v>> {
        let (Value::Int(now), found) = found.split_first()? else { return None };
        let (found, slots) = found.split_at_checked(wire.len())?;
        let is_slot =
            |request: &&BatchRequest| matches!(request.operation, Operation::Renew | Operation::Release);
        let slot_requests = self.requests.iter().filter(is_slot);
        let expected: usize = slot_requests.map(|request| self.charges_of(request).len()).sum();
        if slots.len() != expected || !slots.iter().all(|slot| matches!(slot, Value::Int(0 | 1))) {
            return None;
        }
        let mut states: Vec<_> = self.counters.iter().map(|counter| self.limit(counter).fresh()).collect();
        let mut foreign = vec![false; states.len()];
        for (counter, value) in wire.iter().zip(found) {
            let counter = *counter as usize;
            if *value == FOREIGN {
                foreign[counter] = true;
            } else {
                states[counter] = state::read(self.limit(&self.counters[counter]), value)?;
            }
        }
        Some(Found { now: Micros(u64::try_from(*now).ok()?), states, foreign, slots })
    }
}
