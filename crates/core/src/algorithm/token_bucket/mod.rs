//! The `token_bucket` algorithm: tokens that refill steadily up to `burst`. GCRA gives the same decisions.
//!
//! Promise: in any time `t`, at most `burst + t x requests / period` units pass.

use super::arrival::{State, capacity, imprint, trace};
use crate::wide::{Divisor, clamp, div_ceil, div_floor, mul};
use crate::{Limit, Micros, NEVER_US, Outcome, Verdict};

/// Returns the verdict of a charge without charging it.
#[inline]
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    charge(limit, *state, cost, now).1
}

/// Charges if it fits. Returns the new state. If the charge was denied, that is the old state, rewritten
/// for the new rate if the limit has changed since it was written.
#[inline]
pub fn charge(limit: &Limit, state: State, cost: u64, now: Micros) -> (State, Verdict) {
    let quick = limit.quick().filter(|_| state.is_of(limit));
    match quick.and_then(|quick| quick.take(state.at, state.part, cost, now)) {
        Some(taken) => {
            let (remaining, reset_after_us) = (taken.remaining, taken.reset_after_us());
            let next = State { at: now.plus(taken.us), part: taken.part, ..state };
            (next, Verdict { outcome: Outcome::Allowed, remaining, reset_after_us })
        }
        None => charge_wide(limit, state, cost, now),
    }
}

/// The fast path for charging a bucket. It applies if the bucket was last charged under the same numbers,
/// and every product fits into 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Quick<'l> {
    pub(crate) limit: &'l Limit,
    pub(crate) prepared: &'l Prepared,
}

/// The most debt on the fast path, in units x microseconds. The debt before a charge and that of the charge are each
/// at most this, so their sum plus a window's length is a valid dividend of a [`Divisor`].
const MOST_DEBT: u64 = Divisor::END / 4;

/// Numbers precomputed from a limit for the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The factor of the [`Divisor`] by the requests; 0 if the limit has no fast path.
    requests_factor: u64,
    /// The factor of the [`Divisor`] by the window's length.
    period_factor: u64,
    /// The debt that the bucket holds, in units x microseconds; at most [`MOST_DEBT`].
    capacity: u64,
    /// The longest time that the bucket takes to drain, in microseconds. A state that lies further in the
    /// future was not written by this limit.
    drains_us: u64,
    imprint: u64,
    requests_shift: u8,
    period_shift: u8,
    /// The burst compressed to ten bits. Set for every limit, with or without a fast path.
    pub(crate) burst_trace: u16,
}

impl Prepared {
    /// Precomputes the numbers of a limit. There is no fast path if the limit is not `eligible` or its
    /// numbers are too large.
    pub(crate) fn new(requests: u64, period_us: u64, burst: u64, eligible: bool) -> Self {
        let burst_trace = trace(burst);
        let without = Self {
            requests_factor: 0,
            period_factor: 0,
            capacity: 0,
            drains_us: 0,
            imprint: 0,
            requests_shift: 0,
            period_shift: 0,
            burst_trace,
        };
        let with = || {
            // A larger bucket has a fast path as long as its debt is below the bound.
            let capacity = burst.saturating_mul(period_us).min(MOST_DEBT);
            let (requests, period_us) = (Divisor::new(requests)?, Divisor::new(period_us)?);
            Some(Self {
                requests_factor: requests.factor,
                period_factor: period_us.factor,
                capacity,
                drains_us: requests.quotient(capacity),
                imprint: imprint(requests.get(), burst_trace),
                requests_shift: requests.shift,
                period_shift: period_us.shift,
                burst_trace,
            })
        };
        eligible.then(with).flatten().unwrap_or(without)
    }

    /// Returns whether the limit has a fast path.
    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        self.requests_factor != 0
    }
}

/// The result of a charge on the fast path.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Whole microseconds until the bucket is empty.
    pub us: u64,
    /// The numerator of the remaining fraction of a microsecond; the denominator is the requests.
    pub part: u64,
    /// The units left.
    pub remaining: u64,
}

impl Quick<'_> {
    #[inline]
    fn requests(&self) -> Divisor {
        let Prepared { requests_factor: factor, requests_shift: shift, .. } = *self.prepared;
        Divisor { number: self.limit.requests(), factor, shift }
    }

    #[inline]
    fn period_us(&self) -> Divisor {
        let Prepared { period_factor: factor, period_shift: shift, .. } = *self.prepared;
        Divisor { number: self.limit.period_us(), factor, shift }
    }

    /// Returns the [`imprint`] of the states that this limit writes.
    #[inline]
    pub fn imprint(&self) -> u64 {
        self.prepared.imprint
    }

    /// Charges a bucket that was last charged under the same limit and will be empty at
    /// `at + part / requests`. `None` means that the fast path does not apply, not that the charge is
    /// denied: call [`charge`] instead.
    #[expect(clippy::inline_always, reason = "nearly every decision takes this path")]
    #[inline(always)]
    pub fn take(&self, at: Micros, part: u64, cost: u64, now: Micros) -> Option<Taken> {
        let after = self.debt(at, part, now)? + self.cost_debt(cost)?;
        if after > self.prepared.capacity {
            return None;
        }
        let us = self.requests().quotient(after);
        let part = after - us * self.requests().get();
        let used = self.period_us().quotient(after + self.period_us().get() - 1);
        Some(Taken { us, part, remaining: self.limit.burst() - used })
    }

    /// Returns the verdict of a charge that does not fit into a bucket that was last charged under the same
    /// limit and will be empty at `at + part / requests`. `None` means that the charge fits or that the fast
    /// path does not apply: call [`charge`] instead.
    pub fn deny(&self, at: Micros, part: u64, cost: u64, now: Micros) -> Option<Verdict> {
        let debt = self.debt(at, part, now)?;
        // A debt above the capacity was not written by this limit, and a larger bucket is never full here.
        let free = self.prepared.capacity.checked_sub(debt).filter(|_| self.prepared.capacity < MOST_DEBT)?;
        let over = self.cost_debt(cost)?.checked_sub(free).filter(|over| *over > 0)?;
        let ceil = |debt: u64| debt.checked_sub(1).map_or(0, |less| self.requests().quotient(less) + 1);
        Some(Verdict {
            outcome: Outcome::Denied { retry_after_us: ceil(over) },
            remaining: self.period_us().quotient(free),
            reset_after_us: ceil(debt),
        })
    }

    /// Returns the debt at `now`, in units x microseconds, or `None` if this limit cannot have written it.
    #[inline]
    fn debt(&self, at: Micros, part: u64, now: Micros) -> Option<u64> {
        match at.0.checked_sub(now.0) {
            None => Some(0),
            Some(ahead_us) if ahead_us > self.prepared.drains_us => None,
            Some(ahead_us) => Some(ahead_us * self.requests().get() + part),
        }
    }

    /// Converts a cost to debt, in units x microseconds. Returns `None` if that is above the capacity.
    #[inline]
    fn cost_debt(&self, cost: u64) -> Option<u64> {
        cost.checked_mul(self.period_us().get()).filter(|debt| *debt <= self.prepared.capacity)
    }
}

impl Taken {
    /// Returns the microseconds until the bucket is empty, rounded up.
    #[inline]
    pub fn reset_after_us(&self) -> u64 {
        self.us + u64::from(self.part > 0)
    }
}

/// Charges a bucket under any limit, with 128-bit arithmetic.
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
        remaining: clamp(div_floor(capacity(limit).saturating_sub(debt), limit.period_us())),
        reset_after_us: clamp(div_ceil(debt, requests)),
    }
}

/// Returns the verdict of a limit of zero requests, which denies everything, whatever its burst.
pub(super) fn never_refills(cost: u64) -> Verdict {
    let outcome = if cost == 0 { Outcome::Allowed } else { Outcome::Denied { retry_after_us: NEVER_US } };
    Verdict { outcome, remaining: 0, reset_after_us: 0 }
}
