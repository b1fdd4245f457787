//! The state of `token_bucket` and `leaky_bucket`: when the bucket will be empty.
//!
//! A bucket holds debt, measured in units x microseconds so that nothing is rounded. The debt shrinks by
//! `requests` each microsecond. The time at which the bucket is empty (the theoretical arrival time of
//! GCRA) is a fraction of a microsecond with the denominator `requests`, and is stored as that fraction:
//! exact for every count and period.

use super::Taken;
use crate::limit::MAX_PERIOD_US;
use crate::wide::{div_rem, mul};
use crate::{Limit, MAX_COUNT, Micros};

/// The Lua implementation of `token_bucket` and `leaky_bucket`, for stores that run scripts beside their
/// data.
pub const SCRIPT: &str = include_str!("arrival.lua");

/// The Lua functions that operate on a stored bucket, without converting it to a state.
pub const VALUE_SCRIPT: &str = include_str!("arrival_value.lua");

/// The time at which the bucket will be empty: `at + part / scale` microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The whole microseconds.
    pub at: Micros,
    /// The numerator of the fraction, below `scale`.
    pub part: u64,
    /// The denominator of the fraction: the `requests` of the limit that wrote this state. With it the
    /// debt is known even after the limit has changed.
    pub scale: u64,
    /// The `burst` of the limit that wrote this state, compressed to ten bits. For an overdrawn bucket, from
    /// 816 on, the magnitude of the time that it takes to drain.
    pub burst_trace: u16,
}

/// Compresses a burst to ten bits: its five highest binary digits, rounded up, and how many digits follow.
pub(crate) fn trace(burst: u64) -> u16 {
    let follow = (u64::BITS - burst.leading_zeros()).saturating_sub(5);
    (16 * u64::from(follow) + burst.div_ceil(1 << follow)) as u16
}

/// Packs what a state records of the limit that wrote it into one word: the burst trace in the high ten
/// bits, the scale in the low 54.
#[inline]
pub const fn imprint(scale: u64, burst_trace: u16) -> u64 {
    (burst_trace as u64) << 54 | scale
}

/// Returns the largest burst with this trace.
fn largest_burst(trace: u16) -> u64 {
    match u64::from(trace) {
        burst @ 0..32 => burst,
        trace => (16 + trace % 16) << (trace / 16 - 1),
    }
}

/// Traces from here on mark overdrawn buckets. The trace of the largest burst is 800.
const OVERDRAWN: u16 = 816;

/// Returns the trace of an overdrawn bucket that takes `drains_us` to drain: [`OVERDRAWN`] plus the number
/// of binary digits of that time.
fn overdrawn_trace(drains_us: u64) -> u16 {
    OVERDRAWN + (u64::BITS - drains_us.leading_zeros()) as u16
}

impl State {
    /// Returns the debt at `now`, in units x microseconds: at most what the bucket holds, unless it was
    /// overdrawn.
    ///
    /// The stored debt can exceed what the bucket holds for one of three reasons:
    ///
    /// - The bucket was overdrawn: all of it is owed.
    /// - The limit was lowered: the bucket counts as full.
    /// - The clock stepped back, which no client should pay for: the bucket counts as empty. This is the
    ///   case if not even the limit that wrote the state could hold the debt, or if an overdrawn bucket
    ///   takes longer to drain than when it was written.
    #[inline]
    pub fn debt(&self, limit: &Limit, now: Micros) -> u128 {
        let (debt, capacity) = (self.owed(now), capacity(limit));
        if debt <= capacity {
            debt
        } else if let Some(digits) = self.burst_trace.checked_sub(OVERDRAWN) {
            if self.at.since(now) >> digits.min(63) == 0 { debt.min(most(limit)) } else { 0 }
        } else if debt > mul(largest_burst(self.burst_trace), limit.period_us()) {
            0
        } else {
            capacity
        }
    }

    /// Returns whether this was written with the same requests and, as far as the trace shows, the same
    /// burst.
    #[inline]
    pub(super) fn is_of(&self, limit: &Limit) -> bool {
        self.scale == limit.requests() && self.burst_trace == limit.burst_trace()
    }

    /// Returns the stored debt at `now`, whether or not the bucket can hold it.
    #[inline]
    fn owed(&self, now: Micros) -> u128 {
        let Some(ahead_us) = self.at.0.checked_sub(now.0) else { return 0 };
        mul(ahead_us, self.scale) + u128::from(self.part)
    }

    /// Returns the state with this debt at `now`, which must be at most what the bucket holds. The limit must
    /// allow at least one request.
    #[inline]
    pub(super) fn with_debt(limit: &Limit, debt: u128, now: Micros) -> Self {
        let scale = limit.requests();
        let (us, part) = div_rem(debt, scale);
        Self { at: now.plus(us as u64), part, scale, burst_trace: limit.burst_trace() }
    }

    /// Returns the state with this debt at `now`, which may exceed what the bucket holds. Debt that takes
    /// over ten years to drain is cut. The limit must allow at least one request.
    fn owing(limit: &Limit, debt: u128, now: Micros) -> Self {
        let debt = debt.min(most(limit));
        let state = Self::with_debt(limit, debt, now);
        if debt <= capacity(limit) {
            return state;
        }
        Self { burst_trace: overdrawn_trace(state.at.since(now)), ..state }
    }

    /// Returns this state, rewritten if the limit has changed since it was written: from `now` on, the debt
    /// drains at the new rate. Debt above what the bucket now holds is dropped, unless it was overdrawn.
    pub(super) fn carried_on(self, limit: &Limit, now: Micros) -> Self {
        if limit.requests() == 0 || self.is_of(limit) && self.owed(now) <= capacity(limit) {
            return self;
        }
        match self.debt(limit, now) {
            0 => self,
            debt => Self::owing(limit, debt, now),
        }
    }
}

/// Returns the most debt that an overdrawn bucket can have: what drains within ten years.
fn most(limit: &Limit) -> u128 {
    mul(limit.requests(), MAX_PERIOD_US)
}

/// Returns the most debt that the bucket holds, in units x microseconds.
#[inline]
pub(crate) fn capacity(limit: &Limit) -> u128 {
    mul(limit.burst(), limit.period_us())
}

/// Charges `cost`, whether it fits or not, up to a full bucket. A limit of zero requests is a ban: the bucket is left
/// unchanged, for when the ban is lifted.
#[inline]
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    if limit.requests() > 0 {
        let debt = state.debt(limit, now);
        let after = debt + mul(cost, limit.period_us());
        // An overdrawn bucket stays overdrawn.
        *state = State::owing(limit, after.min(capacity(limit).max(debt)), now);
    }
}

/// Charges a cost that has been used already: the bucket owes all of it, even if that is more than it holds.
pub fn overdraw(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    if limit.requests() > 0 {
        let after = state.debt(limit, now) + debt_of(limit, cost);
        *state = State::owing(limit, after, now);
    }
}

/// Converts a cost, at most [`MAX_COUNT`], to debt.
#[inline]
fn debt_of(limit: &Limit, cost: u64) -> u128 {
    mul(cost.min(MAX_COUNT), limit.period_us())
}

/// Refunds `cost`, down to an empty bucket.
#[inline]
pub fn give_back(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    refund(limit, state, debt_of(limit, cost), now);
}

/// Refunds the share of an earlier charge that certainly has not drained yet. The share that may have
/// drained is not refunded: without the charge, the bucket might have been empty for that time, and an
/// empty bucket saves nothing up. Whether it would have been empty is unknown, because other charges may
/// have been refunded since.
pub fn give_back_taken(limit: &Limit, state: &mut State, cost: u64, taken: Taken, now: Micros) {
    let drained = mul(now.since(taken.at), limit.requests());
    let left = debt_of(limit, cost).saturating_sub(drained);
    // If the limit has changed, at most what was owed under the old numbers.
    let owed = mul(taken.clear_at.since(now), limit.requests());
    refund(limit, state, left.min(owed), now);
}

fn refund(limit: &Limit, state: &mut State, debt: u128, now: Micros) {
    if limit.requests() > 0 {
        *state = State::owing(limit, state.debt(limit, now).saturating_sub(debt), now);
    }
}
