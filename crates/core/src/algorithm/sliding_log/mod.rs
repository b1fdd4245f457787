//! The `sliding_log` algorithm: a timestamp per request, exact over any window.
//!
//! Promise: in any time shorter than `period`, wherever it begins, at most `requests` units pass.

use std::collections::VecDeque;

use super::Taken;
use crate::{Limit, MAX_COUNT, Micros, NEVER_US, Outcome, Verdict};

/// The Lua implementation of `sliding_log`, for stores that run scripts beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The charges that still count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The charges, oldest first, at most one stamp per microsecond.
    pub stamps: VecDeque<Stamp>,
    /// The sum of the costs of all stamps.
    pub total: u64,
}

/// The charges of one microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When the units were charged.
    pub at: Micros,
    /// The number of units charged.
    pub cost: u64,
}

impl State {
    /// Returns the time from which no charge of this state counts any more.
    pub fn expires(&self, limit: &Limit) -> Micros {
        self.stamps.back().map_or(Micros(0), |newest| newest.at.plus(limit.period_us()))
    }

    /// Returns the stamps that count, which are less than a period old. There are none if the newest lies
    /// in the future, because the clock stepped back.
    fn live(&self, limit: &Limit, now: Micros) -> impl DoubleEndedIterator<Item = &Stamp> {
        let period_us = limit.period_us();
        let stepped_back = self.lies_ahead(now);
        self.stamps.iter().filter(move |stamp| !stepped_back && now.since(stamp.at) < period_us)
    }

    fn lies_ahead(&self, now: Micros) -> bool {
        self.stamps.back().is_some_and(|newest| newest.at > now)
    }

    /// Returns the units that count at `now`. Stamps are in order, so this reads only the expired ones.
    fn used(&self, limit: &Limit, now: Micros) -> u64 {
        if self.lies_ahead(now) {
            return 0;
        }
        let old = self.stamps.iter().take_while(|stamp| now.since(stamp.at) >= limit.period_us());
        self.total - old.map(|stamp| stamp.cost).sum::<u64>()
    }

    fn prune(&mut self, limit: &Limit, now: Micros) {
        if self.lies_ahead(now) {
            *self = Self::default();
        }
        while self.stamps.front().is_some_and(|stamp| now.since(stamp.at) >= limit.period_us()) {
            self.drop_oldest();
        }
    }

    fn add(&mut self, cost: u64, now: Micros) {
        match self.stamps.back_mut() {
            Some(newest) if newest.at == now => newest.cost += cost,
            _ => self.stamps.push_back(Stamp { at: now, cost }),
        }
        self.total += cost;
    }

    fn drop_oldest(&mut self) {
        self.total -= self.stamps.pop_front().map_or(0, |stamp| stamp.cost);
    }
}

/// Returns the verdict of a charge without charging it.
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    let requests = limit.requests();
    let used = state.used(limit, now);
    let after = used.saturating_add(cost);
    let leaves_us = |stamp: &Stamp| limit.period_us() - now.since(stamp.at);
    let newest_leaves_us = || state.live(limit, now).next_back().map_or(0, leaves_us);
    if after <= requests {
        let reset_after_us = if cost == 0 { newest_leaves_us() } else { limit.period_us() };
        return Verdict { outcome: Outcome::Allowed, remaining: requests - after, reset_after_us };
    }
    let retry_after_us = if cost > requests {
        NEVER_US
    } else {
        let mut needed = after - requests;
        let frees = state.live(limit, now).find(|stamp| {
            needed = needed.saturating_sub(stamp.cost);
            needed == 0
        });
        frees.map_or(0, leaves_us)
    };
    let remaining = requests.saturating_sub(used);
    let reset_after_us = newest_leaves_us();
    Verdict { outcome: Outcome::Denied { retry_after_us }, remaining, reset_after_us }
}

/// Charges, whether it fits or not. Of more than `requests` units, the newest are kept.
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    state.prune(limit, now);
    let cost = cost.min(limit.requests());
    if cost == 0 {
        return;
    }
    state.add(cost, now);
    while let Some(over @ 1..) = state.total.checked_sub(limit.requests()) {
        match state.stamps.front_mut() {
            Some(oldest) if oldest.cost > over => {
                oldest.cost -= over;
                state.total -= over;
            }
            _ => state.drop_oldest(),
        }
    }
}

/// Charges a cost that has been used already, even beyond the limit. The log keeps at most `requests` stamps: beyond
/// that the oldest are dropped, because the log is full without them.
pub fn overdraw(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    state.prune(limit, now);
    let cost = cost.min(MAX_COUNT - state.total.min(MAX_COUNT));
    if cost == 0 || limit.requests() == 0 {
        return;
    }
    state.add(cost, now);
    while state.stamps.len() as u64 > limit.requests() {
        state.drop_oldest();
    }
}

/// Refunds an earlier charge to the stamp of its microsecond, if that still counts.
pub fn give_back_taken(limit: &Limit, state: &mut State, cost: u64, taken: Taken, now: Micros) {
    state.prune(limit, now);
    let index = state.stamps.partition_point(|stamp| stamp.at < taken.at);
    let Some(stamp) = state.stamps.get_mut(index).filter(|stamp| stamp.at == taken.at) else { return };
    let given = cost.min(stamp.cost);
    stamp.cost -= given;
    state.total -= given;
    if stamp.cost == 0 {
        state.stamps.remove(index);
    }
}

/// Refunds the newest charges first.
pub fn give_back(limit: &Limit, state: &mut State, mut cost: u64, now: Micros) {
    state.prune(limit, now);
    while let Some(newest) = state.stamps.back_mut() {
        let given = cost.min(newest.cost);
        newest.cost -= given;
        state.total -= given;
        cost -= given;
        if newest.cost > 0 {
            break;
        }
        state.stamps.pop_back();
    }
}
