//! The `sub_windows` algorithm: the window as a ring of smaller fixed windows, called buckets.
//!
//! Promise: any `buckets` consecutive buckets hold at most `requests` units. So at most `requests` pass
//! in any time of `period x (buckets - 1) / buckets`; the more buckets, the closer to exact.
//!
//! Bucket `i` begins at `i x period / buckets`, rounded up to a whole microsecond, so the number of
//! buckets need not divide the period.

use super::Taken;
use crate::wide::{clamp, div_ceil, div_floor, mul};
use crate::{Limit, MAX_COUNT, Micros, NEVER_US, Outcome, Verdict};

/// The Lua implementation of `sub_windows`, for stores that run scripts beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The counts of the newest bucket and the ones before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The number of the newest bucket, counted from the epoch.
    pub newest: u64,
    /// The counts as a ring: bucket `i` is at index `i % len`.
    pub counts: Box<[u64]>,
    /// The sum of all counts.
    pub total: u64,
}

impl State {
    /// Creates a ring of empty buckets.
    pub fn new(buckets: u32) -> Self {
        Self { newest: 0, counts: vec![0; buckets as usize].into_boxed_slice(), total: 0 }
    }

    /// Returns the time from which no bucket of this state counts any more.
    pub fn expires(&self, limit: &Limit) -> Micros {
        self.start_of(self.newest.saturating_add(self.len()), limit)
    }

    fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    fn count(&self, bucket: u64) -> u64 {
        self.counts[(bucket % self.len()) as usize]
    }

    fn bucket_at(&self, now: Micros, limit: &Limit) -> u64 {
        clamp(div_floor(mul(now.0, self.len()), limit.period_us()))
    }

    fn start_of(&self, bucket: u64, limit: &Limit) -> Micros {
        Micros(clamp(div_ceil(mul(bucket, limit.period_us()), self.counts.len() as u64)))
    }

    /// Returns the numbers of the buckets that count while `bucket` is the current one, oldest first. The
    /// range is empty if the newest bucket lies in the future, because the clock stepped back.
    fn live(&self, bucket: u64) -> std::ops::Range<u64> {
        let oldest = (bucket + 1).saturating_sub(self.len());
        if self.newest > bucket { 0..0 } else { oldest..self.newest + 1 }
    }

    /// Makes `bucket` the newest one and clears the buckets that leave the window. Takes at most one pass
    /// over the ring, however much time has passed.
    fn advance(&mut self, bucket: u64) {
        let stale = bucket.saturating_sub(self.newest);
        if stale >= self.len() || self.newest > bucket {
            self.counts.fill(0);
            self.total = 0;
        } else {
            for index in self.newest + 1..=bucket {
                let slot = (index % self.len()) as usize;
                self.total -= self.counts[slot];
                self.counts[slot] = 0;
            }
        }
        self.newest = bucket;
    }

    /// Returns the units that count while `bucket` is the current one.
    fn used(&self, bucket: u64) -> u64 {
        let live = self.live(bucket);
        if live.is_empty() {
            return 0;
        }
        let fallen = (self.newest + 1).saturating_sub(self.len())..live.start;
        self.total - fallen.map(|index| self.count(index)).sum::<u64>()
    }
}

/// Returns the verdict of a charge without charging it.
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    let requests = limit.requests();
    let bucket = state.bucket_at(now, limit);
    let used = state.used(bucket);
    let after = used.saturating_add(cost);
    let leaves_us = |bucket: u64| state.start_of(bucket + state.len(), limit).since(now);
    if after <= requests {
        let reset_after_us = match cost {
            0 => newest_used(state, bucket).map_or(0, leaves_us),
            _ => leaves_us(bucket),
        };
        return Verdict { outcome: Outcome::Allowed, remaining: requests - after, reset_after_us };
    }
    let retry_after_us =
        if cost > requests { NEVER_US } else { frees(state, bucket, after - requests).map_or(0, leaves_us) };
    Verdict {
        outcome: Outcome::Denied { retry_after_us },
        remaining: requests.saturating_sub(used),
        reset_after_us: newest_used(state, bucket).map_or(0, leaves_us),
    }
}

/// Charges if it fits, and returns the verdict. A denied charge changes nothing.
pub fn charge(limit: &Limit, state: &mut State, cost: u64, now: Micros) -> Verdict {
    let requests = limit.requests();
    let bucket = state.bucket_at(now, limit);
    let after = state.used(bucket).saturating_add(cost);
    if cost == 0 || after > requests {
        return assess(limit, state, cost, now);
    }
    state.advance(bucket);
    // What counted before is the total now, so the sum is at most the requests of a limit.
    state.counts[(bucket % state.len()) as usize] += cost;
    state.total = after;
    let reset_after_us = state.expires(limit).since(now);
    Verdict { outcome: Outcome::Allowed, remaining: requests - after, reset_after_us }
}

/// Returns the bucket that frees `needed` units, together with those before it, when it leaves the window.
fn frees(state: &State, bucket: u64, mut needed: u64) -> Option<u64> {
    state.live(bucket).find(|index| {
        needed = needed.saturating_sub(state.count(*index));
        needed == 0
    })
}

/// Returns the newest bucket with a count above zero.
fn newest_used(state: &State, bucket: u64) -> Option<u64> {
    state.live(bucket).rev().find(|index| state.count(*index) > 0)
}

/// Charges, whether it fits or not, up to a total of [`MAX_COUNT`].
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let bucket = state.bucket_at(now, limit);
    state.advance(bucket);
    let cost = cost.min(MAX_COUNT.saturating_sub(state.total));
    state.counts[(bucket % state.len()) as usize] += cost;
    state.total += cost;
}

/// Refunds to the newest bucket first, then to the ones before it.
pub fn give_back(limit: &Limit, state: &mut State, mut cost: u64, now: Micros) {
    let bucket = state.bucket_at(now, limit);
    state.advance(bucket);
    for index in state.live(bucket).rev() {
        let slot = (index % state.len()) as usize;
        let given = cost.min(state.counts[slot]);
        state.counts[slot] -= given;
        state.total -= given;
        cost -= given;
        if cost == 0 {
            break;
        }
    }
}

/// Refunds an earlier charge to the bucket it was charged in, if that bucket still counts.
pub fn give_back_taken(limit: &Limit, state: &mut State, cost: u64, taken: Taken, now: Micros) {
    let bucket = state.bucket_at(now, limit);
    state.advance(bucket);
    let taken_in = state.bucket_at(taken.at, limit);
    if state.live(bucket).contains(&taken_in) {
        let slot = (taken_in % state.len()) as usize;
        let given = cost.min(state.counts[slot]);
        state.counts[slot] -= given;
        state.total -= given;
    }
}
