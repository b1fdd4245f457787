//! Tokens that refill steadily up to `burst`. GCRA is the same function with another story.
//!
//! Promises: in any time `t`, at most `burst + t x requests / period` pass.

use super::arrival::{State, capacity, imprint, trace};
use crate::wide::{Divisor, clamp, div_ceil, div_floor, mul};
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

/// A bucket's numbers for the usual case: the bucket was last charged under the same numbers, the charge
/// fits, and no product comes near 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Quick<'l> {
    pub(crate) limit: &'l Limit,
    pub(crate) prepared: &'l Prepared,
}

/// What follows from a limit's numbers for that case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Dividing by the requests; 0 for limits that are never charged this way.
    requests_factor: u64,
    /// Dividing by the window's length.
    period_factor: u64,
    /// What the bucket holds, in units x microseconds.
    capacity: u64,
    /// The longest a bucket takes to drain; a state that lies further ahead is not this bucket's.
    drains_us: u64,
    imprint: u64,
    requests_shift: u8,
    period_shift: u8,
    /// Of every limit.
    pub(crate) burst_trace: u16,
}

impl Prepared {
    /// Of a limit that is not charged in the usual case unless it `may` be.
    pub(crate) fn new(requests: u64, period_us: u64, burst: u64, may: bool) -> Self {
        let burst_trace = trace(burst);
        let never = Self {
            requests_factor: 0,
            period_factor: 0,
            capacity: 0,
            drains_us: 0,
            imprint: 0,
            requests_shift: 0,
            period_shift: 0,
            burst_trace,
        };
        let usual = || {
            // Twice as much, and what was there before, stays below 2^64.
            let capacity = burst.checked_mul(period_us).filter(|capacity| *capacity < Divisor::END)?;
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
        may.then(usual).flatten().unwrap_or(never)
    }

    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        self.requests_factor != 0
    }
}

/// What a usual charge leaves behind.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Until the bucket is empty, in whole microseconds.
    pub us: u64,
    /// And the fraction's numerator.
    pub part: u64,
    /// Units left.
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

    /// What a state of this bucket bears of it, as [`imprint`] puts it.
    #[inline]
    pub fn imprint(&self) -> u64 {
        self.prepared.imprint
    }

    /// Takes a charge from a bucket that was last charged under the same limit and will be empty at
    /// `at + part / requests`. `None` says nothing but that [`charge`] has to look closer.
    #[expect(clippy::inline_always, reason = "this is the way of nearly every decision")]
    #[inline(always)]
    pub fn take(&self, at: Micros, part: u64, cost: u64, now: Micros) -> Option<Taken> {
        let after = self.debt(at, part, now)? + self.asked(cost)?;
        let left = self.prepared.capacity.checked_sub(after)?;
        let us = self.requests().quotient(after);
        let part = after - us * self.requests().get();
        Some(Taken { us, part, remaining: self.period_us().quotient(left) })
    }

    /// The denial of a charge that such a bucket has no room for. `None` says nothing but that
    /// [`charge`] has to look closer.
    pub fn deny(&self, at: Micros, part: u64, cost: u64, now: Micros) -> Option<Verdict> {
        let debt = self.debt(at, part, now)?;
        // More than the bucket holds is not this bucket's.
        let free = self.prepared.capacity.checked_sub(debt)?;
        let over = self.asked(cost)?.checked_sub(free).filter(|over| *over > 0)?;
        let ceil = |debt: u64| debt.checked_sub(1).map_or(0, |less| self.requests().quotient(less) + 1);
        Some(Verdict {
            outcome: Outcome::Denied { retry_after_us: ceil(over) },
            remaining: self.period_us().quotient(free),
            reset_after_us: ceil(debt),
        })
    }

    /// What the bucket owes, in units x microseconds.
    #[inline]
    fn debt(&self, at: Micros, part: u64, now: Micros) -> Option<u64> {
        match at.0.checked_sub(now.0) {
            None => Some(0),
            Some(ahead_us) if ahead_us > self.prepared.drains_us => None,
            Some(ahead_us) => Some(ahead_us * self.requests().get() + part),
        }
    }

    /// A cost in the same units, if the bucket ever holds as much.
    #[inline]
    fn asked(&self, cost: u64) -> Option<u64> {
        (cost <= self.limit.burst()).then(|| cost * self.period_us().get())
    }
}

impl Taken {
    /// Until the bucket is empty, rounded up.
    #[inline]
    pub fn reset_after_us(&self) -> u64 {
        self.us + u64::from(self.part > 0)
    }
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
        remaining: clamp(div_floor(capacity(limit).saturating_sub(debt), limit.period_us())),
        reset_after_us: clamp(div_ceil(debt, requests)),
    }
}

/// Zero requests is a limit that denies everything, whatever its burst.
pub(super) fn never_refills(cost: u64) -> Verdict {
    let outcome = if cost == 0 { Outcome::Allowed } else { Outcome::Denied { retry_after_us: NEVER_US } };
    Verdict { outcome, remaining: 0, reset_after_us: 0 }
}
