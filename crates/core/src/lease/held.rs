//! The units that one node holds of one key.

use super::demand::{Demand, MEMORY_US};
use super::terms::Terms;
use crate::{Micros, Outcome, Taken, Verdict};

/// A renewal takes at most this fraction (one in `ROOM_SHARE`) of what the store has left, so that the last units
/// stay available to all nodes.
const ROOM_SHARE: u64 = 8;

/// A lease is renewed when less than this fraction (one in `LOW_SHARE`) of its units or of its time is left.
const LOW_SHARE: u64 = 4;

/// Units that a store has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number of units granted.
    pub units: u64,
    /// The store's verdict on taking them.
    pub verdict: Verdict,
    /// When the store took them, by its clock.
    pub at: Micros,
    /// When the call was sent, by the node's clock. It must be read before the call leaves.
    pub sent: Micros,
}

impl Grant {
    /// Returns all units of the grant, to be returned to the store because no request waits for them any more.
    pub fn rest(&self) -> Option<Rest> {
        let taken = Taken { at: self.at, clear_at: self.at.plus(self.verdict.reset_after_us) };
        (self.units > 0).then_some(Rest { units: self.units, taken })
    }
}

/// Units to return to the store, to the window or bucket that they were taken from. They were not spent and cannot be
/// spent any more. Return them at most once: a second return would add units to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "units that are not returned are lost until their window ends"]
pub struct Rest {
    /// The number of units to return.
    pub units: u64,
    /// The charge that took the units.
    pub taken: Taken,
}

/// Identifies the grant that units were spent from, to undo the spending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    until: Micros,
    at: Micros,
}

/// The units that one node holds of one key, until when they may be spent, and what is known of the store's counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    units: u64,
    /// The first moment, by the node's clock, at which the units must not be spent any more.
    until: Micros,
    /// When the oldest of the units was taken, by the store's clock.
    at: Micros,
    /// When the counter is unused again, by the store's clock, as of the last reply.
    clear_at: Micros,
    demand: Demand,
    /// The units left in the store, as of the last reply.
    room: Room,
    /// Microseconds from sending the call to `until`, and in [`RENEWING`] whether a call for more is in progress.
    life: u32,
}

/// The bit of [`Lease::life`] that is set while a call for more units is in progress.
const RENEWING: u32 = 1 << 31;

/// A count in four bytes: its 26 highest binary digits, and how many digits follow. It is rounded down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room(u32);

impl Room {
    fn new(count: u64) -> Self {
        let follow = (u64::BITS - count.leading_zeros()).saturating_sub(26);
        Self(follow << 26 | (count >> follow) as u32)
    }

    /// Returns how much can be leased after a verdict of the store: nothing after a denial.
    fn after(verdict: &Verdict) -> Self {
        Self::new(if verdict.allowed() { verdict.remaining } else { 0 })
    }

    fn get(self) -> u64 {
        u64::from(self.0 & ((1 << 26) - 1)) << (self.0 >> 26)
    }
}

impl Lease {
    /// Returns the units held, whether or not they may still be spent.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Returns whether the units may be spent at `now`, by the node's clock. A clock that stepped back to before
    /// the units were asked for ends the lease.
    #[inline]
    pub fn is_live(&self, now: Micros) -> bool {
        now < self.until && self.until.since(now) <= self.life_us()
    }

    /// Returns whether a call for more units is in progress.
    pub fn is_renewing(&self) -> bool {
        self.life & RENEWING != 0
    }

    fn life_us(&self) -> u64 {
        u64::from(self.life & !RENEWING)
    }

    /// Returns whether the lease holds nothing, waits for nothing, and has seen no demand lately.
    pub fn is_idle(&self, now: Micros) -> bool {
        self.units == 0 && !self.is_renewing() && self.demand.units(now) == 0
    }

    /// Spends `cost` units if the lease holds that many. Returns the verdict, and a mark to undo the spending. `None`
    /// is not a denial: ask the store. `now` must be read for this call, so that a process that was suspended does
    /// not spend by an old time.
    #[inline]
    pub fn spend(&mut self, cost: u64, now: Micros) -> Option<(Verdict, Mark)> {
        if cost == 0 || cost > self.units || !self.is_live(now) {
            return None;
        }
        self.units -= cost;
        self.demand.add(cost, now);
        let outcome = Outcome::Allowed;
        let remaining = self.units.saturating_add(self.room.get());
        let verdict =
            Verdict { outcome, remaining, reset_after_us: self.clear_at.since(self.store_time(now)) };
        Some((verdict, Mark { until: self.until, at: self.at }))
    }

    /// Undoes the spending of `cost` units, because another limit denies the request. Returns false if the grant that
    /// they were taken from is gone; then the units are lost.
    pub fn unspend(&mut self, cost: u64, mark: Mark) -> bool {
        let same = mark == Mark { until: self.until, at: self.at };
        if same {
            self.units += cost;
        }
        same
    }

    /// Records a verdict of the store on a charge that was not leased, of which `cost` units were taken.
    pub fn observe(&mut self, cost: u64, verdict: &Verdict, now: Micros) {
        self.room = Room::after(verdict);
        self.demand.add(cost, now);
    }

    /// Returns how many units to take from the store now, ahead of need, and marks a call as in progress. Returns
    /// `None` if enough is held, if the key is used too little, or if the store has too little left.
    pub fn renewal(&mut self, terms: &Terms, now: Micros) -> Option<u64> {
        if self.is_renewing() || terms.longest_us() == 0 {
            return None;
        }
        let units = if self.is_live(now) { self.units } else { 0 };
        let target = self.target(terms, now);
        let ages = self.until.since(now) <= self.life_us() / LOW_SHARE;
        if target < 2 || units > target / LOW_SHARE && !ages {
            return None;
        }
        self.life |= RENEWING;
        Some(if ages { target } else { target - units.min(target - 1) })
    }

    /// Returns how many units to hold: what is used in half of the time for which they may be held, and at most a
    /// share of what the store has left.
    fn target(&self, terms: &Terms, now: Micros) -> u64 {
        let used = self.demand.units(now).saturating_mul(terms.longest_us() / 2) / MEMORY_US;
        used.min(self.room.get() / ROOM_SHARE)
    }

    /// Adds the units of a renewal. Returns the units to return to the store: the old ones if more than half of their
    /// time is over, the new ones if they came too late, else none.
    pub fn grant(&mut self, terms: &Terms, grant: &Grant, now: Micros) -> Option<Rest> {
        self.life &= !RENEWING;
        self.room = Room::after(&grant.verdict);
        let Rest { taken, .. } = grant.rest()?;
        let life_us = terms.ends(grant.at).since(grant.at);
        let life_us = (life_us - life_us.div_ceil(16)).min(u64::from(!RENEWING));
        let until = grant.sent.plus(life_us);
        if now >= until || now < grant.sent {
            return grant.rest();
        }
        let young = self.is_live(now) && self.until.since(now) >= life_us / 2;
        if self.units > 0 && young && self.until <= until && self.at <= grant.at {
            // The new units count as taken when the old ones were, which shortens their time.
            self.units += grant.units;
            self.clear_at = self.clear_at.max(taken.clear_at);
            return None;
        }
        let rest = self.release();
        self.units = grant.units;
        self.until = until;
        self.at = grant.at;
        self.clear_at = taken.clear_at;
        self.life = life_us as u32;
        rest
    }

    /// Records that a renewal failed. The store is asked again once a request has reached it.
    pub fn renewal_failed(&mut self) {
        self.life &= !RENEWING;
        self.room = Room::default();
    }

    /// Gives up all units, to be returned: on shutdown, when the limit changes, or when their time is over.
    pub fn release(&mut self) -> Option<Rest> {
        let units = std::mem::take(&mut self.units);
        (units > 0).then_some(Rest { units, taken: Taken { at: self.at, clear_at: self.clear_at } })
    }

    /// Gives up the units if their time is over.
    pub fn release_if_over(&mut self, now: Micros) -> Option<Rest> {
        if self.is_live(now) { None } else { self.release() }
    }

    /// Returns the latest time that the store's clock can show at `now`.
    fn store_time(&self, now: Micros) -> Micros {
        self.at.plus(now.since(self.until.minus(self.life_us())))
    }
}
