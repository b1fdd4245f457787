//! The clock of a run.

use quanta::{Clock, Instant};

/// Counts nanoseconds since the run was prepared. Reading it costs about 10 ns.
#[derive(Debug)]
pub(crate) struct RunClock {
    clock: Clock,
    start: Instant,
}

impl RunClock {
    pub(crate) fn new(clock: Clock) -> Self {
        let start = clock.now();
        Self { clock, start }
    }

    /// Returns the nanoseconds since `new`.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now().saturating_duration_since(self.start).as_nanos() as u64
    }
}

/// Converts nanoseconds to seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
