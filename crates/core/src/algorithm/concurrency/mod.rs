//! Holders at once, each with a time-out.
//!
//! Promises: at most `requests` slots are held at any moment, and a slot whose holder neither renews
//! nor releases it returns after the limit's window.

use crate::{Limit, Micros, NEVER_US, Outcome, Verdict};

/// The same in Lua, for stores that run it beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The slots in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// One lease per holder.
    pub leases: Vec<Lease>,
}

/// One holder's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it: a number the caller chose, unique among the holders of the key.
    pub id: u64,
    /// How many slots.
    pub cost: u64,
    /// When they return by themselves.
    pub expires: Micros,
}

impl Lease {
    /// A lease that runs longer than the time-out was written before the clock stepped back.
    fn live(&self, limit: &Limit, now: Micros) -> bool {
        now < self.expires && self.expires.since(now) <= limit.period_us()
    }
}

impl State {
    /// When nothing of this state counts any more.
    pub fn expires(&self) -> Micros {
        self.leases.iter().map(|lease| lease.expires).max().unwrap_or_default()
    }

    fn live(&self, limit: &Limit, now: Micros) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(move |lease| lease.live(limit, now))
    }
}

/// What would become of an acquisition of `cost` slots.
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

/// When `needed` slots will have returned by themselves.
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

/// Takes slots under `id` if they are free. Those it holds already are held on together with them.
pub fn acquire(limit: &Limit, state: &mut State, id: u64, cost: u64, now: Micros) -> Verdict {
    let verdict = assess(limit, state, cost, now);
    if verdict.allowed() && cost > 0 {
        state.leases.retain(|lease| lease.live(limit, now));
        let expires = now.plus(limit.period_us());
        match state.leases.iter_mut().find(|lease| lease.id == id) {
            Some(held) => *held = Lease { id, cost: held.cost + cost, expires },
            None => state.leases.push(Lease { id, cost, expires }),
        }
    }
    verdict
}

/// Starts the time-out of `id` anew; false if its slots have returned already.
pub fn renew(limit: &Limit, state: &mut State, id: u64, now: Micros) -> bool {
    let held = state.leases.iter_mut().find(|lease| lease.id == id && lease.live(limit, now));
    held.map(|lease| lease.expires = now.plus(limit.period_us())).is_some()
}

/// Returns the slots of `id`; false if there are none. Slots that have timed out count as there until
/// somebody else acquires.
pub fn release(state: &mut State, id: u64) -> bool {
    let before = state.leases.len();
    state.leases.retain(|lease| lease.id != id);
    state.leases.len() < before
}
