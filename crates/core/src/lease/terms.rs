//! Which limits can be leased, and for how long leased units may be spent.

use thiserror::Error;

use crate::wide::{clamp, div_ceil, mul};
use crate::{Algorithm, Limit, Micros};

/// The fraction of a bucket (one in `RESERVE_SHARE`) that the store holds back so that leased units may be spent
/// later.
const RESERVE_SHARE: u64 = 20;

/// The fraction of a window (one in `WINDOW_SHARE`) for which units may be held.
const WINDOW_SHARE: u64 = 8;

/// Units that may be held for less than this are not leased: a round trip takes about as long.
const SHORTEST_US: u64 = 2_000;

/// The error of a limit that cannot be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{algorithm} cannot be leased, because {reason}; use `consistency: exact`")]
pub struct NotLeasable {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// The reason, as a clause for the error message.
    pub reason: &'static str,
}

/// The terms on which units of a limit are leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    limit: Limit,
    shared: Limit,
    longest_us: u64,
}

impl Terms {
    /// Returns the terms of a limit whose units may be held for at most `longest_us`. Short windows and small
    /// buckets shorten that.
    ///
    /// # Errors
    /// Returns the reason if units of the limit cannot be spent later than they are taken.
    pub fn new(limit: &Limit, longest_us: u64) -> Result<Self, NotLeasable> {
        let refused = |reason| Err(NotLeasable { algorithm: limit.algorithm().name(), reason });
        let terms = |shared, longest_us| Self { limit: limit.clone(), shared, longest_us };
        match limit.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                let longest_us = longest_us.min(limit.period_us() / WINDOW_SHARE);
                Ok(terms(limit.clone(), worthwhile(longest_us)))
            }
            Algorithm::TokenBucket { burst } => Ok(match smaller(limit, burst, longest_us) {
                Some((shared, longest_us)) => terms(shared, longest_us),
                None => terms(limit.clone(), 0),
            }),
            Algorithm::SlidingLog => refused("it counts each request at the moment it is made"),
            Algorithm::SubWindows { .. } => refused("its buckets are too short to hold units for"),
            Algorithm::LeakyBucket { .. } => refused("it evens out requests, and leases bunch them"),
            Algorithm::Concurrency => refused("a slot has a holder, and cannot be passed on"),
        }
    }

    /// Returns the limit that clients are promised.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the limit to charge in the store. It is the promised limit, except for a token bucket, whose burst is
    /// smaller by what refills while units are held. Every charge of the key must use it, leased or not.
    pub fn shared(&self) -> &Limit {
        &self.shared
    }

    /// Returns the longest time for which units may be held, in microseconds; 0 if every request has to ask the
    /// store.
    pub fn longest_us(&self) -> u64 {
        self.longest_us
    }

    /// Returns the time, by the store's clock, from which units taken at `at` must not be spent any more.
    pub fn ends(&self, at: Micros) -> Micros {
        let ends = at.plus(self.longest_us);
        match self.limit.algorithm() {
            Algorithm::TokenBucket { .. } => ends,
            _ => ends.min(self.limit.window().span(at).end),
        }
    }
}

/// Returns the time if it is long enough to hold units for, else 0.
fn worthwhile(us: u64) -> u64 {
    if us < SHORTEST_US { 0 } else { us }
}

/// Returns the bucket to charge in the store, and for how long its units may be held. Returns `None` if the bucket is
/// too small to hold anything back.
fn smaller(limit: &Limit, burst: u64, longest_us: u64) -> Option<(Limit, u64)> {
    let (requests, period_us) = (limit.requests(), limit.period_us());
    if requests == 0 || burst < RESERVE_SHARE {
        return None;
    }
    let refills_us = clamp(mul(burst / RESERVE_SHARE, period_us) / u128::from(requests));
    let longest_us = worthwhile(longest_us.min(refills_us));
    let reserve = clamp(div_ceil(mul(requests, longest_us), period_us));
    if longest_us == 0 || reserve >= burst {
        return None;
    }
    let burst = burst - reserve;
    let shared = Limit::new(Algorithm::TokenBucket { burst }, requests, limit.window().clone()).ok()?;
    Some((shared, longest_us))
}
