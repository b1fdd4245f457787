//! The `fixed_window` algorithm: one counter per window.
//!
//! Promise: within each window, at most `requests` units pass. Around the boundary of two windows up to
//! twice as many can pass in less than a window's length.

use super::Taken;
use crate::{Limit, MAX_COUNT, Micros, NEVER_US, Outcome, Verdict};

/// The Lua implementation of `fixed_window`, for stores that run scripts beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The Lua functions that operate on a stored counter, without converting it to a state.
pub const VALUE_SCRIPT: &str = include_str!("value.lua");

/// The count, and the end of the window it belongs to. The end identifies the window: the start and length of a
/// calendar window change with the time of year.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The first microsecond after the window.
    pub end: Micros,
    /// Units charged in the window.
    pub count: u64,
}

impl State {
    /// Returns the count if it belongs to the window with this end, else 0.
    #[inline]
    fn count_in(&self, end: Micros) -> u64 {
        if self.end == end { self.count } else { 0 }
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
    let requests = limit.requests();
    let end = limit.window().span(now).end;
    let count = state.count_in(end);
    let reset_after_us = end.since(now);
    let after = count.saturating_add(cost);
    if after <= requests {
        let verdict = Verdict { outcome: Outcome::Allowed, remaining: requests - after, reset_after_us };
        return (State { end, count: after }, verdict);
    }
    let retry_after_us = if cost > requests { NEVER_US } else { reset_after_us };
    let remaining = requests.saturating_sub(count);
    (state, Verdict { outcome: Outcome::Denied { retry_after_us }, remaining, reset_after_us })
}

/// Charges, whether it fits or not, up to [`MAX_COUNT`].
#[inline]
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let end = limit.window().span(now).end;
    let count = state.count_in(end).saturating_add(cost).min(MAX_COUNT);
    *state = State { end, count };
}

/// Refunds into the current window.
#[inline]
pub fn give_back(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let end = limit.window().span(now).end;
    *state = State { end, count: state.count_in(end).saturating_sub(cost) };
}

/// Refunds an earlier charge, if its window is still the current one.
pub fn give_back_taken(limit: &Limit, state: &mut State, cost: u64, taken: Taken, now: Micros) {
    if taken.at <= now && limit.window().span(now).contains(taken.at) {
        give_back(limit, state, cost, now);
    }
}
