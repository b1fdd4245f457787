//! Tokens that refill steadily up to `burst`. GCRA is the same function with another story.
//!
//! Promises: in any time `t`, at most `burst + t x requests / period` pass.

use super::arrival::{State, capacity};
use crate::wide::{clamp, div_ceil, div_floor, mul};
use crate::{Limit, Micros, NEVER_US, Outcome, Verdict};

/// What would become of a charge.
#[inline]
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    charge(limit, *state, cost, now).1
}

/// Takes a charge if it fits; if not, the state stays as it was, unless the limit has changed: then it
/// is the one to carry on with, at the new rate.
#[inline]
pub fn charge(limit: &Limit, state: State, cost: u64, now: Micros) -> (State, Verdict) {
    charge_usual(limit, state, cost, now).unwrap_or_else(|| charge_wide(limit, state, cost, now))
}

/// Takes a charge in the usual case: it fits, and so does every product fit 64 bits. `None` says
/// nothing but that [`charge`] has to look closer.
#[inline]
pub fn charge_usual(limit: &Limit, state: State, cost: u64, now: Micros) -> Option<(State, Verdict)> {
    if limit.small_capacity() == 0 {
        return None;
    }
    let debt = match state.at.0.checked_sub(now.0) {
        None => 0,
        Some(ahead_us) => ahead_us.checked_mul(state.scale)?.checked_add(state.part)?,
    };
    let after = cost.checked_mul(limit.period_us())?.checked_add(debt)?;
    let left = limit.small_capacity().checked_sub(after)?;
    let us = after.checked_div(limit.requests())?;
    let part = after - us * limit.requests();
    let taken = State { at: now.plus(us), part, scale: limit.requests(), burst_trace: limit.burst_trace() };
    let verdict = Verdict {
        outcome: Outcome::Allowed,
        remaining: left / limit.period_us(),
        reset_after_us: us + u64::from(part > 0),
    };
    Some((taken, verdict))
}

/// Any case.
#[cold]
fn charge_wide(limit: &Limit, state: State, cost: u64, now: Micros) -> (State, Verdict) {
    let (requests, period_us) = (limit.requests(), limit.period_us());
    if requests == 0 {
        return (state, never_refills(cost));
    }
    let capacity = capacity(limit);
    let debt = state.debt(limit, now);
    let after = debt + mul(cost, period_us);
    if after > capacity {
        return (state.carried_on(limit, now), denied(limit, debt, after - capacity, cost));
    }
    let taken = State::with_debt(limit, after, now);
    let verdict = Verdict {
        outcome: Outcome::Allowed,
        remaining: clamp(div_floor(capacity - after, period_us)),
        reset_after_us: taken.at.since(now) + u64::from(taken.part > 0),
    };
    (taken, verdict)
}

fn denied(limit: &Limit, debt: u128, over: u128, cost: u64) -> Verdict {
    let requests = limit.requests();
    let retry_after_us = if cost > limit.burst() { NEVER_US } else { clamp(div_ceil(over, requests)) };
    Verdict {
        outcome: Outcome::Denied { retry_after_us },
        remaining: clamp(div_floor(capacity(limit) - debt, limit.period_us())),
        reset_after_us: clamp(div_ceil(debt, requests)),
    }
}

/// Zero requests is a limit that denies everything, whatever its burst.
pub(super) fn never_refills(cost: u64) -> Verdict {
    let outcome = if cost == 0 { Outcome::Allowed } else { Outcome::Denied { retry_after_us: NEVER_US } };
    Verdict { outcome, remaining: 0, reset_after_us: 0 }
}
