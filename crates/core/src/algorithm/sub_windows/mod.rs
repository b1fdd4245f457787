//! The window as a ring of smaller fixed ones.
//!
//! Promises: any `buckets` neighbouring buckets hold at most `requests`. So at most `requests` pass
//! in any time of `period x (buckets - 1) / buckets`, and more buckets come closer to exact.
//!
//! Bucket `i` begins at `i x period / buckets`, rounded up to a whole microsecond, so that any
//! number of buckets goes with any period.

use super::Taken;
use crate::wide::{clamp, div_ceil, div_floor, mul};
use crate::{Limit, MAX_COUNT, Micros, NEVER_US, Outcome, Verdict};

/// The same in Lua, for stores that run it beside their data.
pub const SCRIPT: &str = include_str!("script.lua");

/// The counts of the newest bucket and those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Number of the newest bucket since the epoch.
    pub newest: u64,
    /// Bucket `i` is at `i % len`.
    pub counts: Box<[u64]>,
    /// The sum of all counts.
    pub total: u64,
}

impl State {
    /// A ring of empty buckets.
    pub fn new(buckets: u32) -> Self {
        Self { newest: 0, counts: vec![0; buckets as usize].into_boxed_slice(), total: 0 }
    }

    /// When nothing of this state counts any more.
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

    /// The buckets that count while `bucket` is the current one, oldest first. None do if the
    /// newest lies ahead: the clock stepped back.
    fn live(&self, bucket: u64) -> std::ops::Range<u64> {
        let oldest = (bucket + 1).saturating_sub(self.len());
        if self.newest > bucket { 0..0 } else { oldest..self.newest + 1 }
    }

    /// Makes `bucket` the newest and empties those that fall out. Touches no more than there are.
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

    fn used(&self, bucket: u64) -> u64 {
        let live = self.live(bucket);
        if live.is_empty() {
            return 0;
        }
        let fallen = (self.newest + 1).saturating_sub(self.len())..live.start;
        self.total - fallen.map(|index| self.count(index)).sum::<u64>()
    }
}

/// What would become of a charge.
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

/// The bucket with whose leaving `needed` units are free again.
fn frees(state: &State, bucket: u64, mut needed: u64) -> Option<u64> {
    state.live(bucket).find(|index| {
        needed = needed.saturating_sub(state.count(*index));
        needed == 0
    })
}

fn newest_used(state: &State, bucket: u64) -> Option<u64> {
    state.live(bucket).rev().find(|index| state.count(*index) > 0)
}

/// Charges, whether it fits or not.
pub fn take(limit: &Limit, state: &mut State, cost: u64, now: Micros) {
    let bucket = state.bucket_at(now, limit);
    state.advance(bucket);
    let cost = cost.min(MAX_COUNT.saturating_sub(state.total));
    state.counts[(bucket % state.len()) as usize] += cost;
    state.total += cost;
}

/// Refunds into the newest bucket first, then into those before it.
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

/// Refunds what was charged earlier into the bucket it was charged in, while that one counts.
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
