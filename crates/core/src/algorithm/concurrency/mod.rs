//! The `concurrency` algorithm: slots held at once, each with a timeout.
//!
//! Promise: at most `requests` slots are held at any moment, and a slot that its holder neither renews
//! nor releases becomes free after the limit's window.

use smallvec::SmallVec;

use crate::{Limit, Micros, NEVER_US, Outcome, Verdict};

/// The Lua implementation of `concurrency`, for stores that run scripts beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The slots in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// One entry per slot holder. The first needs no allocation.
    pub leases: SmallVec<[Lease; 1]>,
}

/// The slots of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// ID of the slot holder: a number chosen by the caller, unique among the holders of the key.
    pub id: u64,
    /// The number of slots.
    pub cost: u64,
    /// When the slots time out and become free.
    pub expires: Micros,
}

impl Lease {
    /// Returns whether the slots are still held at `now`. If they run longer than the timeout, they were
    /// written before the clock stepped back, and no longer count.
    fn live(&self, limit: &Limit, now: Micros) -> bool {
        now < self.expires && self.expires.since(now) <= limit.period_us()
    }
}

impl State {
    /// Returns the time from which no slot of this state is held any more.
    pub fn expires(&self) -> Micros {
        self.leases.iter().map(|lease| lease.expires).max().unwrap_or_default()
    }

    fn live(&self, limit: &Limit, now: Micros) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(move |lease| lease.live(limit, now))
    }
}

/// Returns the verdict of acquiring `cost` slots without acquiring them.
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    let max = limit.requests();
    let used: u64 = state.live(limit, now).map(|lease| lease.cost).sum();
    let after = used.saturating_add(cost);
    let last_us = state.live(limit, now).map(|lease| lease.expires.since(now)).max().unwrap_or(0);
    if after <= max {
        let reset_after_us = if cost == 0 { last_us } else { limit.period_us() };
        return Verdict { outcome: Outcome::Allowed, remaining: max - after, reset_after_us };
    }
    let retry_after_us = if cost > max { NEVER_US } else { frees_us(limit, state, after - max, now) };
    Verdict {
        outcome: Outcome::Denied { retry_after_us },
        remaining: max.saturating_sub(used),
        reset_after_us: last_us,
    }
}

/// Returns the microseconds until `needed` slots have timed out.
fn frees_us(limit: &Limit, state: &State, needed: u64, now: Micros) -> u64 {
    let mut leases: Vec<_> = state.live(limit, now).collect();
    leases.sort_unstable_by_key(|lease| lease.expires);
    let mut freed = 0_u64;
    let last = leases.iter().find(|lease| {
        freed += lease.cost;
        freed >= needed
    });
    last.map_or(0, |lease| lease.expires.since(now))
}

/// Acquires `cost` slots for `id` if they are free. If `id` holds slots already, the timeout of all its
/// slots starts anew.
pub fn acquire(limit: &Limit, state: &mut State, id: u64, cost: u64, now: Micros) -> Verdict {
    let verdict = assess(limit, state, cost, now);
    if verdict.allowed() && cost > 0 {
        hold(limit, state, id, cost, now);
    }
    verdict
}

/// Takes slots under `id`, after [`assess`] has found them free.
pub fn hold(limit: &Limit, state: &mut State, id: u64, cost: u64, now: Micros) {
    state.leases.retain(|lease| lease.live(limit, now));
    let expires = now.plus(limit.period_us());
    match state.leases.iter_mut().find(|lease| lease.id == id) {
        Some(held) => *held = Lease { id, cost: held.cost + cost, expires },
        None => state.leases.push(Lease { id, cost, expires }),
    }
}

/// Restarts the timeout of the slots of `id`. Returns false if `id` holds none, because they were released
/// or have timed out.
pub fn renew(limit: &Limit, state: &mut State, id: u64, now: Micros) -> bool {
    let held = state.leases.iter_mut().find(|lease| lease.id == id && lease.live(limit, now));
    held.map(|lease| lease.expires = now.plus(limit.period_us())).is_some()
}

/// Releases the slots of `id`. Returns false if there were none. Slots that have timed out are still found
/// until another holder acquires some.
pub fn release(state: &mut State, id: u64) -> bool {
    let before = state.leases.len();
    state.leases.retain(|lease| lease.id != id);
    state.leases.len() < before
}
