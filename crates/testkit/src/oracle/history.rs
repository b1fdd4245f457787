//! A record of charges and their times.

use tidegate_core::{MAX_COUNT, Micros};

/// Charges in the order they were made, minus what was refunded.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    charges: Vec<(Micros, u64)>,
    last_write: Option<Micros>,
}

impl History {
    /// Returns the units charged at the times for which `counts` is true.
    pub(super) fn units(&self, counts: impl Fn(Micros) -> bool) -> i128 {
        self.charges.iter().filter(|(at, _)| counts(*at)).map(|(_, cost)| i128::from(*cost)).sum()
    }

    /// Returns the time of the last charge or refund.
    pub(super) fn last_write(&self) -> Option<Micros> {
        self.last_write
    }

    /// Returns whether there are charges later than `now` that were not refunded.
    pub(super) fn reaches_past(&self, now: Micros) -> bool {
        self.charges.iter().any(|(at, cost)| *at > now && *cost > 0)
    }

    /// Adds a charge.
    pub(super) fn add(&mut self, now: Micros, cost: u64) {
        self.charges.push((now, cost));
        self.last_write = Some(now);
    }

    /// Adds a charge to a counter that holds `used` units already. The sum saturates at 2^53.
    pub(super) fn add_up_to_max(&mut self, now: Micros, cost: u64, used: i128) {
        let room = u64::try_from(i128::from(MAX_COUNT) - used).unwrap_or(0);
        self.add(now, cost.min(room));
    }

    /// Refunds charges at the times for which `counts` is true, the newest first.
    pub(super) fn refund(&mut self, now: Micros, mut cost: u64, counts: impl Fn(Micros) -> bool) {
        for (at, left) in self.charges.iter_mut().rev() {
            if counts(*at) {
                let refunded = cost.min(*left);
                *left -= refunded;
                cost -= refunded;
            }
        }
        self.last_write = Some(now);
    }

    /// Keeps the newest charges, up to `units` units.
    pub(super) fn keep_newest(&mut self, mut units: u64) {
        for (_, cost) in self.charges.iter_mut().rev() {
            *cost = units.min(*cost);
            units -= *cost;
        }
    }

    /// Drops the charges at the times for which `counts` is false.
    pub(super) fn keep(&mut self, counts: impl Fn(Micros) -> bool) {
        self.charges.retain(|(at, _)| counts(*at));
    }

    /// Drops everything.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
