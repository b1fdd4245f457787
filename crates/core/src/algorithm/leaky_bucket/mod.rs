//! The `leaky_bucket` algorithm: a bucket that drains steadily.
//!
//! In meter mode it is a token bucket, and what does not fit is denied. In queue mode it returns how long
//! to hold a request so that requests leave evenly spaced, `period / requests` apart, and denies only
//! what does not fit into the bucket. A caller that cannot hold a request (`hold` is false) gets a denial
//! with that wait, and nothing is charged.

use super::arrival::{self, State, capacity};
use super::token_bucket;
use crate::wide::{clamp, div_ceil, div_floor, mul};
use crate::{Limit, Micros, NEVER_US, Outcome, Verdict};

/// Returns the verdict of a charge without charging it.
#[inline]
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros, hold: bool) -> Verdict {
    charge(limit, *state, cost, now, hold).1
}

/// Charges if it fits. Returns the new state. If the charge was denied, that is the old state, rewritten
/// for the new rate if the limit has changed since it was written.
#[inline]
pub fn charge(limit: &Limit, state: State, cost: u64, now: Micros, hold: bool) -> (State, Verdict) {
    if !limit.queues() {
        return token_bucket::charge(limit, state, cost, now);
    }
    let verdict = assess_queue(limit, &state, cost, now, hold);
    let mut next = state.carried_on(limit, now);
    if verdict.allowed() {
        arrival::take(limit, &mut next, cost, now);
    }
    (next, verdict)
}

fn assess_queue(limit: &Limit, state: &State, cost: u64, now: Micros, hold: bool) -> Verdict {
    let requests = limit.requests();
    if requests == 0 {
        return token_bucket::never_refills(cost);
    }
    let debt = state.debt(limit, now);
    let charge = mul(cost, limit.period_us());
    let outcome = queue_outcome(limit, debt, cost, hold);
    let after = if matches!(outcome, Outcome::Denied { .. }) { debt } else { debt + charge };
    let remaining = match (hold, after) {
        (true, _) => clamp(div_floor(capacity(limit).saturating_sub(after), limit.period_us())),
        (false, 0) => limit.burst(),
        (false, _) => 0,
    };
    Verdict { outcome, remaining, reset_after_us: clamp(div_ceil(after, requests)) }
}

fn queue_outcome(limit: &Limit, debt: u128, cost: u64, hold: bool) -> Outcome {
    if cost > limit.burst() {
        return Outcome::Denied { retry_after_us: NEVER_US };
    }
    let drain_us = |debt| clamp(div_ceil(debt, limit.requests()));
    let over = (debt + mul(cost, limit.period_us())).saturating_sub(capacity(limit));
    match (cost, debt) {
        (0, _) | (_, 0) => Outcome::Allowed,
        _ if !hold => Outcome::Denied { retry_after_us: drain_us(debt) },
        _ if over > 0 => Outcome::Denied { retry_after_us: drain_us(over) },
        _ => Outcome::Held { wait_us: drain_us(debt) },
    }
}
