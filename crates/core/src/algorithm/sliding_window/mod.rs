//! The `sliding_window` algorithm: two counters, for the current window and for the previous one, weighted by its
//! overlap.
//!
//! Promise: `current + previous x overlap` never exceeds `requests`, where the overlap is the share of
//! the previous window that lies within one window's length before now. The result is exact if the
//! requests of the previous window were spread evenly.
//!
//! The weighted count is a fraction of units x microseconds, exact in 128 bits: 2^53 units over 10 years need 102.

use super::Taken;
use crate::wide::{clamp, div_ceil, div_floor, mul};
use crate::{Limit, MAX_COUNT, Micros, NEVER_US, Outcome, Verdict};

/// The Lua implementation of `sliding_window`, for stores that run scripts beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The Lua functions that operate on a stored counter, without converting it to a state.
pub const VALUE_SCRIPT: &str = include_str!("value.lua");

/// The counts of two neighbouring windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When the current window began.
    pub start: Micros,
    /// Units charged in the current window.
    pub current: u64,
    /// Units charged in the window before it.
    pub previous: u64,
}

impl State {
    /// Returns the counts of the window that contains `now` and of the one before. A window that lies in
    /// the future was written before the clock stepped back, and does not count.
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

/// Returns the verdict of a charge without charging it.
#[inline]
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    charge(limit, *state, cost, now).1
}

/// Charges if it fits. Returns the new state, which is the old one if the charge was denied.
#[inline]
pub fn charge(limit: &Limit, state: State, cost: u64, now: Micros) -> (State, Verdict) {
    let (requests, period_us) = (limit.requests(), limit.period_us());
    let seen = state.at(now, period_us);
    let left_us = period_us - now.since(seen.start);
    // Counts and costs are whole units, so rounding up the units of the previous window denies nothing that fits.
    let used = seen.current.saturating_add(carried(&seen, left_us, period_us));
    let after = used.saturating_add(cost);
    if after <= requests {
        let taken = State { current: seen.current + cost, ..seen };
        let reset_after_us = reset_after_us(taken.current, taken.previous, left_us, period_us);
        return (taken, Verdict { outcome: Outcome::Allowed, remaining: requests - after, reset_after_us });
    }
    let retry_after_us = retry_after_us(&seen, requests, cost, left_us, period_us);
    let remaining = requests.saturating_sub(used);
    let reset_after_us = reset_after_us(seen.current, seen.previous, left_us, period_us);
    (state, Verdict { outcome: Outcome::Denied { retry_after_us }, remaining, reset_after_us })
}

/// Returns the units of the previous window that still count, rounded up.
#[inline]
fn carried(seen: &State, left_us: u64, period_us: u64) -> u64 {
    if seen.previous == 0 { 0 } else { clamp(div_ceil(mul(seen.previous, left_us), period_us)) }
}

#[inline]
fn reset_after_us(current: u64, previous: u64, left_us: u64, period_us: u64) -> u64 {
    match (current, previous) {
        (0, 0) => 0,
        (0, _) => left_us,
        _ => left_us + period_us,
    }
}

/// Returns the microseconds until the charge fits. That is in this window, as the weight of the previous
/// one shrinks; or else in the next window, as the weight of the current count shrinks.
fn retry_after_us(seen: &State, requests: u64, cost: u64, left_us: u64, period_us: u64) -> u64 {
    if cost > requests {
        return NEVER_US;
    }
    // The longest overlap at which `count` units of the previous window still leave `room` free.
    let overlap_us = |room: u64, count: u64| clamp(div_floor(mul(room, period_us), count)).min(period_us);
    match requests.checked_sub(seen.current.saturating_add(cost)) {
        Some(room) => left_us - overlap_us(room, seen.previous),
        None => left_us + period_us - overlap_us(requests - cost, seen.current),
    }
}

/// Charges, whether it fits or not, up to [`MAX_COUNT`].
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

/// Refunds an earlier charge to the window it was charged in, if that is the current or previous one.
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
