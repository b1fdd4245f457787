//! The oracle of `concurrency`: a list of holders, their slots and times. Slots are held for less than the
//! timeout.

use tidegate_core::{Limit, Micros, Verdict};

use super::{Oracle, assess};

/// The slots of one key and their holders.
#[derive(Clone)]
pub struct Concurrency {
    limit: Limit,
    holders: Vec<Holder>,
}

#[derive(Clone, Copy)]
struct Holder {
    id: u64,
    cost: u64,
    /// When the slots were acquired, or last renewed.
    since: Micros,
}

impl Concurrency {
    /// Creates a key of which no slot is held.
    pub fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), holders: Vec::new() }
    }

    fn holds(&self, holder: &Holder, at: Micros) -> bool {
        holder.since <= at && at < holder.since.plus(self.limit.period_us())
    }

    fn used(&self, at: Micros) -> u128 {
        self.holders
            .iter()
            .filter(|holder| self.holds(holder, at))
            .map(|holder| u128::from(holder.cost))
            .sum()
    }

    /// Acquires `cost` slots for `id` if they are free.
    pub fn acquire(&mut self, id: u64, cost: u64, now: Micros) -> Verdict {
        let verdict = assess(self, cost, now, false);
        if verdict.allowed() && cost > 0 {
            self.add(id, cost, now);
        }
        verdict
    }

    fn add(&mut self, id: u64, cost: u64, now: Micros) {
        let holding = self.holders.iter().filter(|holder| self.holds(holder, now));
        self.holders = holding.copied().collect();
        self.holders.push(Holder { id, cost, since: now });
    }

    /// Restarts the timeout of the slots of `id`. Returns false if it holds none.
    pub fn renew(&mut self, id: u64, now: Micros) -> bool {
        let held = self.holders.iter().position(|holder| holder.id == id && self.holds(holder, now));
        held.map(|index| self.holders[index].since = now).is_some()
    }

    /// Releases the slots of `id`. Returns false if there were none.
    pub fn release(&mut self, id: u64) -> bool {
        let before = self.holders.len();
        self.holders.retain(|holder| holder.id != id);
        self.holders.len() < before
    }
}

impl Oracle for Concurrency {
    fn fork(&self) -> Box<dyn Oracle> {
        Box::new(self.clone())
    }

    fn fits(&self, cost: u64, at: Micros, _hold: bool) -> bool {
        self.used(at) + u128::from(cost) <= u128::from(self.limit.requests())
    }

    fn untouched(&self, at: Micros) -> bool {
        self.used(at) == 0
    }

    /// Acquires slots for an ID that is never renewed or released.
    fn take(&mut self, cost: u64, now: Micros) {
        self.add(u64::MAX, cost, now);
    }

    /// Does nothing: slots are returned with [`Concurrency::release`].
    fn give_back(&mut self, _cost: u64, _now: Micros) {}

    fn discard_future(&mut self, now: Micros) {
        self.holders.retain(|holder| holder.since <= now);
    }

    fn relimit(&mut self, limit: &Limit, _now: Micros) {
        self.limit = limit.clone();
    }
}
