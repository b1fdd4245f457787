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

/// A histogram of durations.
#[derive(Default)]
pub struct Durations {
    /// One for each bound, and one for longer durations.
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
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

    /// Returns the sum in seconds, the count, and the count of each bucket with its upper bound in seconds.
    #[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "Prometheus counts in seconds")]
    pub(super) fn read(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let bounds = BOUNDS_NS.iter().map(|ns| seconds(*ns)).chain([f64::INFINITY]);
        (seconds(self.sum_ns.load(Relaxed)), counts.iter().sum(), bounds.zip(counts).collect())
    }
}

impl Timer<'_> {
    /// Adds the time since the start.
    #[inline]
    pub fn stop(self) {
        self.durations.add(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}
