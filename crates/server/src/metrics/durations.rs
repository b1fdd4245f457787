//! A histogram of durations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quanta::Instant;

/// Upper bounds of the buckets in nanoseconds. Decisions take microseconds; those that take milliseconds stand out.
const BOUNDS_NS: [u64; 16] = [
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// The number of buckets, with the one for longer durations.
pub const DURATION_BUCKETS: usize = BOUNDS_NS.len() + 1;

/// The sum in seconds, the count, and the count of each bucket with its upper bound in seconds.
pub(super) type Reading = (f64, u64, Vec<(f64, u64)>);

/// A histogram of durations.
#[derive(Default)]
pub struct Durations {
    /// One for each bound, and one for longer durations.
    buckets: [AtomicU64; DURATION_BUCKETS],
    sum_ns: AtomicU64,
}

/// Measures one duration.
pub struct Timer<'a> {
    durations: &'a Durations,
    start: Instant,
}

impl Durations {
    /// Starts measuring.
    #[inline]
    pub fn start(&self) -> Timer<'_> {
        Timer { durations: self, start: Instant::now() }
    }

    #[inline]
    fn add(&self, ns: u64) {
        let bucket = BOUNDS_NS.iter().position(|bound| ns <= *bound).unwrap_or(BOUNDS_NS.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    /// Returns the count of each bucket.
    pub fn counts(&self) -> [u64; DURATION_BUCKETS] {
        std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed))
    }

    /// Returns the sum in seconds, the count, and the count of each bucket with its upper bound in seconds.
    #[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "Prometheus counts in seconds")]
    pub(super) fn read(&self) -> Reading {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let bounds = BOUNDS_NS.iter().map(|ns| seconds(*ns)).chain([f64::INFINITY]);
        (seconds(self.sum_ns.load(Relaxed)), counts.iter().sum(), bounds.zip(counts).collect())
    }
}

/// Returns a percentile of durations in microseconds, by the counts of their buckets: as if durations lay evenly in
/// each. `None` if there are none.
#[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "for people to read")]
pub fn percentile_us(counts: &[u64; DURATION_BUCKETS], percent: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = total as f64 * percent / 100.0;
    let mut below = 0.0;
    for (bucket, count) in counts.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let from = bucket.checked_sub(1).map_or(0, |before| BOUNDS_NS[before]) as f64;
            // Longer durations than the last bound are shown as that one.
            let to = BOUNDS_NS.get(bucket).map_or(from, |bound| *bound as f64);
            return Some((from + (to - from) * ((rank - below) / count).clamp(0.0, 1.0)) / 1000.0);
        }
        below += count;
    }
    None
}

impl Timer<'_> {
    /// Adds the time since the start.
    #[inline]
    pub fn stop(self) {
        self.durations.add(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_in_the_bucket_that_has_it() {
        let mut counts = [0; DURATION_BUCKETS];
        assert_eq!(percentile_us(&counts, 50.0), None);
        (counts[3], counts[10]) = (98, 2);
        let (half, most) = (percentile_us(&counts, 50.0).unwrap(), percentile_us(&counts, 99.0).unwrap());
        assert!((2.5..=5.0).contains(&half), "{half}");
        assert!((500.0..=1000.0).contains(&most), "{most}");
    }
}
