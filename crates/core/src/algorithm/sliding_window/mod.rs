//! Two counters: the current window, and the previous one weighed by its overlap.
//!
//! Promises: `current + previous x overlap` never exceeds `requests`, where overlap is the part of
//! the previous window that lies within one window's length before now. It is exact if the previous
//! window's requests were spread evenly.
//!
//! Sums are in units x microseconds, so nothing rounds; 2^53 units over 10 years need 102 bits.

use super::Taken;
use crate::wide::{clamp, div_floor, mul};
use crate::{Limit, MAX_COUNT, Micros, NEVER_US, Outcome, Verdict};

/// The same in Lua, for stores that run it beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The counts of two neighbouring windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When the current window began.
    pub start: Micros,
    /// Units taken in it.
    pub current: u64,
    /// Units taken in the window before.
    pub previous: u64,
}

impl State {
    /// The counts as seen from `now`. A window that lies ahead was written before the clock
    /// stepped back, and does not count.
    #[inline]
    fn at(&self, now: Micros, period_us: u64) -> Self {
        let start = Micros(now.0 - now.0 % period_us);
        if self.start == start {
            *self
        } else if self.start.plus(period_us) == start {
            Self { start, current: 0, previous: self.current }
        } else {
            Self { start, current: 0, previous: 0 }
        }
    }
}

/// What would become of a charge.
#[inline]
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    charge(limit, *state, cost, now).1
}

/// Takes a charge if it fits; if not, the state stays as it was.
#[inline]
pub fn charge(limit: &Limit, state: State, cost: u64, now: Micros) -> (State, Verdict) {
    let (requests, period_us) = (limit.requests(), limit.period_us());
    let seen = state.at(now, period_us);
    let left_us = period_us - now.since(seen.start);
    let budget = mul(requests, period_us);
    let used = mul(seen.current, period_us) + mul(seen.previous, left_us);
    let after = used + mul(cost, period_us);
    if after <= budget {
        let remaining = clamp(div_floor(budget - after, period_us));
        let taken = State { current: seen.current + cost, ..seen };
        let reset_after_us = reset_after_us(taken.current, taken.previous, left_us, period_us);
        return (taken, Verdict { outcome: Outcome::Allowed, remaining, reset_after_us });
    }
    let retry_after_us = retry_after_us(&seen, requests, cost, left_us, period_us);
    let remaining = clamp(div_floor(budget.saturating_sub(used), period_us));
    let reset_after_us = reset_after_us(seen.current, seen.previous, left_us, period_us);
    (state, Verdict { outcome: Outcome::Denied { retry_after_us }, remaining, reset_after_us })
}

#[inline]
fn reset_after_us(current: u64, previous: u64, left_us: u64, period_us: u64) -> u64 {
    match (current, previous) {
        (0, 0) => 0,
        (0, _) => left_us,
        _ => left_us + period_us,
    }
}

/// Solves for the first microsecond at which the charge fits: in this window while the previous
/// one's weight shrinks, else in the next, where the current count is the one that shrinks.
fn retry_after_us(seen: &State, requests: u64, cost: u64, left_us: u64, period_us: u64) -> u64 {
    if cost > requests {
        return NEVER_US;
    }
    // The overlap may be at most this long for `count` of the window before to leave `room`.
    let overlap_us = |room: u64, count: u64| clamp(div_floor(mul(room, period_us), count)).min(period_us);
    match requests.checked_sub(seen.current.saturating_add(cost)) {
        Some(room) => left_us - overlap_us(room, seen.previous),
        None => left_us + period_us - overlap_us(requests - cost, seen.current),
    }
}

/// Charges, whether it fits or not.
#[inline]
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let seen = state.at(now, limit.period_us());
    *state = State { current: seen.current.saturating_add(cost).min(MAX_COUNT), ..seen };
}

/// Refunds into the current window first, then into the previous one.
#[inline]
pub fn give_back(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let seen = state.at(now, limit.period_us());
    let from_current = cost.min(seen.current);
    *state = State {
        current: seen.current - from_current,
        previous: seen.previous.saturating_sub(cost - from_current),
        ..seen
    };
}

/// Refunds what was charged earlier into the window it was charged in, while that one counts.
pub fn give_back_taken(limit: &Limit, state: &mut State, cost: u64, taken: Taken, now: Micros) {
    let period_us = limit.period_us();
    let seen = state.at(now, period_us);
    let taken_in = Micros(taken.at.0 - taken.at.0 % period_us);
    if taken_in == seen.start {
        give_back(limit, state, cost, now);
    } else if taken_in.plus(period_us) == seen.start {
        *state = State { previous: seen.previous.saturating_sub(cost), ..seen };
    }
}
