//! A histogram of batch durations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets. A batch takes some tens of microseconds at best, and the default deadline is 15 ms.
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
    /// One bucket for each bound, and one for longer durations.
    buckets: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

/// The durations of the batches to one server, from sending until the reply or the deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The name of the server.
    pub server: String,
    /// The number of batches per bucket: those that took at most as long as each of [`LATENCY_BOUNDS`] and longer
    /// than the bound before; the last bucket counts those beyond all bounds.
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
