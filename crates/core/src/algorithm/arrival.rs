//! The one value behind `token_bucket` and `leaky_bucket`: when the bucket will have drained.
//!
//! The bucket holds debt, in units x microseconds, so that nothing rounds; it drains by `requests`
//! of them each microsecond. The moment it is empty (the theoretical arrival time of GCRA) is a
//! fraction of a microsecond with `requests` as its denominator, and is kept as such: exact for
//! every count and period.

use crate::wide::{div_rem, mul};
use crate::{Limit, Micros};

/// When the bucket will be empty: `at + part / scale` microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whole microseconds.
    pub at: Micros,
    /// The fraction's numerator, below `scale`.
    pub part: u64,
    /// The fraction's denominator: `requests` when this was written. With it the units owed are
    /// known even after the limit has changed.
    pub scale: u64,
    /// A trace of `burst` when this was written; see [`State::debt`].
    pub burst_trace: u16,
}

/// Ten bits of a burst.
pub(crate) fn trace(burst: u64) -> u16 {
    ((burst ^ (burst >> 10) ^ (burst >> 20) ^ (burst >> 30) ^ (burst >> 40)) & 0x3ff) as u16
}

impl State {
    /// Debt at `now`, in units x microseconds, at most what the bucket holds.
    ///
    /// More than that is found for one of two reasons. The limit was lowered: the bucket counts as
    /// full. Or the clock stepped back, which nobody should pay for: the bucket counts as empty.
    /// They are told apart by the numbers the state was written under.
    #[inline]
    pub fn debt(&self, limit: &Limit, now: Micros) -> u128 {
        let Some(ahead_us) = self.at.0.checked_sub(now.0) else { return 0 };
        let debt = mul(ahead_us, self.scale) + u128::from(self.part);
        let capacity = capacity(limit);
        if debt <= capacity {
            debt
        } else if self.scale == limit.requests() && self.burst_trace == limit.burst_trace() {
            0
        } else {
            capacity
        }
    }

    #[inline]
    pub(super) fn with_debt(limit: &Limit, debt: u128, now: Micros) -> Self {
        let scale = limit.requests();
        if scale == 0 {
            return Self::default();
        }
        let (us, part) = div_rem(debt, scale);
        Self { at: now.plus(us as u64), part, scale, burst_trace: limit.burst_trace() }
    }
}

/// The most debt the bucket holds.
#[inline]
pub(crate) fn capacity(limit: &Limit) -> u128 {
    mul(limit.burst(), limit.period_us())
}

/// Charges, whether it fits or not; a full bucket stays full.
#[inline]
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let debt = state.debt(limit, now) + mul(cost, limit.period_us());
    *state = State::with_debt(limit, debt.min(capacity(limit)), now);
}

/// Refunds; an empty bucket stays empty.
#[inline]
pub fn give_back(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let debt = state.debt(limit, now).saturating_sub(mul(cost, limit.period_us()));
    *state = State::with_debt(limit, debt, now);
}
