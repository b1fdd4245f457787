//! The one value behind `token_bucket` and `leaky_bucket`: when the bucket will have drained.
//!
//! The bucket holds debt, in units x microseconds, so that nothing rounds; it drains by `requests`
//! of them each microsecond. The moment it is empty (the theoretical arrival time of GCRA) is a
//! fraction of a microsecond with `requests` as its denominator, and is kept as such: exact for
//! every count and period.

use super::Taken;
use crate::limit::MAX_PERIOD_US;
use crate::wide::{div_rem, mul};
use crate::{Limit, MAX_COUNT, Micros};

/// Both buckets in Lua, for stores that run it beside their data.
pub const SCRIPT: &str = include_str!("arrival.lua");

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
    /// About the `burst` when this was written: its first binary digits. If more is owed than the bucket
    /// holds, about how long that takes to drain instead, above all of those.
    pub burst_trace: u16,
}

/// A burst in ten bits: its first five binary digits, rounded up, and how many follow.
pub(crate) fn trace(burst: u64) -> u16 {
    let follow = (u64::BITS - burst.leading_zeros()).saturating_sub(5);
    (16 * u64::from(follow) + burst.div_ceil(1 << follow)) as u16
}

/// What a state bears of the limit that wrote it, in one word: ten bits of trace above the scale's 54.
#[inline]
pub const fn imprint(scale: u64, burst_trace: u16) -> u64 {
    (burst_trace as u64) << 54 | scale
}

/// The largest burst with that trace.
fn largest_burst(trace: u16) -> u64 {
    match u64::from(trace) {
        burst @ 0..32 => burst,
        trace => (16 + trace % 16) << (trace / 16 - 1),
    }
}

/// Traces from here on are of overdrawn buckets. That of the largest burst is 800.
const OVERDRAWN: u16 = 816;

/// The trace of a bucket that is overdrawn and takes so long to drain: how many binary digits that has.
fn overdrawn_trace(drains_us: u64) -> u16 {
    OVERDRAWN + (u64::BITS - drains_us.leading_zeros()) as u16
}

impl State {
    /// Debt at `now`, in units x microseconds: at most what the bucket holds, unless it was overdrawn.
    ///
    /// More than that is found for one of three reasons. The bucket was overdrawn: all of it is owed.
    /// The limit was lowered: the bucket counts as full. Or the clock stepped back, which nobody should
    /// pay for: the bucket counts as empty. It was the clock if not even the bucket this was written for
    /// could hold so much, or what was overdrawn takes longer to drain than it did then.
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

    /// Whether this was written under the same numbers, as far as it tells.
    #[inline]
    pub(super) fn is_of(&self, limit: &Limit) -> bool {
        self.scale == limit.requests() && self.burst_trace == limit.burst_trace()
    }

    /// What is written down, whether the bucket can hold it or not.
    #[inline]
    fn owed(&self, now: Micros) -> u128 {
        let Some(ahead_us) = self.at.0.checked_sub(now.0) else { return 0 };
        mul(ahead_us, self.scale) + u128::from(self.part)
    }

    /// The state that owes `debt` at `now`. Only for limits that drain: not for zero requests.
    #[inline]
    pub(super) fn with_debt(limit: &Limit, debt: u128, now: Micros) -> Self {
        let scale = limit.requests();
        let (us, part) = div_rem(debt, scale);
        Self { at: now.plus(us as u64), part, scale, burst_trace: limit.burst_trace() }
    }

    /// The same for a debt that may be more than the bucket holds, up to what drains within ten years.
    fn owing(limit: &Limit, debt: u128, now: Micros) -> Self {
        let debt = debt.min(most(limit));
        let state = Self::with_debt(limit, debt, now);
        if debt <= capacity(limit) {
            return state;
        }
        Self { burst_trace: overdrawn_trace(state.at.since(now)), ..state }
    }

    /// This state, rewritten if the limit has changed since: what is owed at `now` is owed from now
    /// on at the new rate, and no more of it than the bucket holds, unless it was overdrawn.
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

/// The most a bucket can be overdrawn by: what drains within ten years.
fn most(limit: &Limit) -> u128 {
    mul(limit.requests(), MAX_PERIOD_US)
}

/// The most debt the bucket holds.
#[inline]
pub(crate) fn capacity(limit: &Limit) -> u128 {
    mul(limit.burst(), limit.period_us())
}

/// Charges, whether it fits or not; a full bucket stays full. Zero requests is a ban: the bucket is
/// left as it is, for the limit that comes after.
#[inline]
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    if limit.requests() > 0 {
        let debt = state.debt(limit, now);
        let after = debt + mul(cost, limit.period_us());
        // What is overdrawn stays so.
        *state = State::owing(limit, after.min(capacity(limit).max(debt)), now);
    }
}

/// Charges what was used already: the bucket owes it even if that is more than it holds.
pub fn overdraw(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    if limit.requests() > 0 {
        let after = state.debt(limit, now) + debt_of(limit, cost);
        *state = State::owing(limit, after, now);
    }
}

/// The debt of a cost, which is at most what every language has numbers for.
#[inline]
fn debt_of(limit: &Limit, cost: u64) -> u128 {
    mul(cost.min(MAX_COUNT), limit.period_us())
}

/// Refunds; an empty bucket stays empty.
#[inline]
pub fn give_back(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    refund(limit, state, debt_of(limit, cost), now);
}

/// Refunds what is surely left of an earlier charge. What may have drained since is not given back: had it
/// not been charged, the bucket might have been empty for so long instead, and nothing is saved in an empty
/// bucket. Whether it would have been is not known: what others owed then may have been refunded since.
pub fn give_back_taken(limit: &Limit, state: &mut State, cost: u64, taken: Taken, now: Micros) {
    let drained = mul(now.since(taken.at), limit.requests());
    let left = debt_of(limit, cost).saturating_sub(drained);
    // Under numbers that have changed, no more than was owed by the old ones.
    let owed = mul(taken.clear_at.since(now), limit.requests());
    refund(limit, state, left.min(owed), now);
}

fn refund(limit: &Limit, state: &mut State, debt: u128, now: Micros) {
    if limit.requests() > 0 {
        *state = State::owing(limit, state.debt(limit, now).saturating_sub(debt), now);
    }
}
