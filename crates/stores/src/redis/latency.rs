//! A histogram of how long batches take.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets. A batch takes some tens of microseconds at best, and the deadline is 15 ms
/// unless set otherwise.
pub const LATENCY_BOUNDS: [Duration; 14] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(15),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// Collects durations from many threads.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// One for each bound, and one for what is beyond the last.
    buckets: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

/// How long the batches to one server took, from being sent until the reply or the deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The server.
    pub server: String,
    /// How many batches took at most as long as each of [`LATENCY_BOUNDS`] and longer than the one before,
    /// and last those that took longer than all of them.
    pub buckets: [u64; LATENCY_BOUNDS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
}

impl Latency {
    pub(super) fn add(&self, took: Duration) {
        let bucket = LATENCY_BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(LATENCY_BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(took.as_micros() as u64, Relaxed);
    }

    pub(super) fn read(&self, server: &str) -> Latencies {
        Latencies {
            server: server.to_owned(),
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed)),
            sum: Duration::from_micros(self.sum_us.load(Relaxed)),
        }
    }
}
