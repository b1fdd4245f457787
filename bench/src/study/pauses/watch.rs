//! Measures the time of single decisions.

use hdrhistogram::Histogram;
use quanta::Clock;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The longest time that can be recorded: ten seconds.
const MOST_NS: u64 = 10_000_000_000;

/// A stopwatch for one thread.
///
/// Wall time includes interruptions by the machine, such as giving the core to another thread. The thread's CPU time
/// does not, but it does not include waiting for a lock either.
pub(super) struct Watch {
    clock: Clock,
    wall: Histogram<u64>,
    own: Histogram<u64>,
    own_before_ns: u64,
    /// The longest pause since it was last read.
    recent: Pause,
}

/// A pause in wall time and in CPU time.
#[derive(Clone, Copy, Default)]
pub(super) struct Pause {
    pub(super) wall_ns: u64,
    pub(super) own_ns: u64,
}

impl Watch {
    pub(super) fn new() -> Self {
        let (clock, recent) = (Clock::new(), Pause::default());
        Self { clock, wall: histogram(), own: histogram(), own_before_ns: own_ns(), recent }
    }

    /// Runs `work` and records how long it took. The CPU time is read once per call, so it is measured from the end
    /// of one call to the end of the next.
    #[inline]
    pub(super) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = self.clock.raw();
        let done = work();
        let wall_ns = self.clock.delta_as_nanos(start, self.clock.raw());
        let own_now_ns = own_ns();
        let own_ns = own_now_ns - self.own_before_ns;
        self.own_before_ns = own_now_ns;
        self.wall.saturating_record(wall_ns);
        self.own.saturating_record(own_ns);
        self.recent.wall_ns = self.recent.wall_ns.max(wall_ns);
        self.recent.own_ns = self.recent.own_ns.max(own_ns);
        done
    }

    /// Returns the longest pause since the last call.
    pub(super) fn take_recent(&mut self) -> Pause {
        std::mem::take(&mut self.recent)
    }

    pub(super) fn summary(&self) -> Pauses {
        let us = |ns: u64| ns as f64 / 1e3;
        let quantile = |part| us(self.wall.value_at_quantile(part));
        Pauses {
            count: self.wall.len(),
            median_us: quantile(0.5),
            p999_us: quantile(0.999),
            p99999_us: quantile(0.999_99),
            longest_us: us(self.wall.max()),
            longest_own_us: us(self.own.max()),
            curve: self.curve(),
        }
    }

    /// Returns points of the distribution: once in how many decisions there was a pause of how many microseconds.
    fn curve(&self) -> Vec<(f64, f64)> {
        let steps = (0..=70).map(|step| 10_f64.powf(f64::from(step) / 10.0));
        let steps = steps.take_while(|once_in| *once_in <= self.wall.len() as f64);
        steps
            .map(|once_in| (once_in, self.wall.value_at_quantile(1.0 - 1.0 / once_in) as f64 / 1e3))
            .collect()
    }
}

/// The durations of one kind of step.
#[derive(Serialize)]
pub(super) struct Pauses {
    pub(super) count: u64,
    pub(super) median_us: f64,
    pub(super) p999_us: f64,
    pub(super) p99999_us: f64,
    pub(super) longest_us: f64,
    /// The longest pause in CPU time of the thread.
    pub(super) longest_own_us: f64,
    #[serde(skip)]
    pub(super) curve: Vec<(f64, f64)>,
}

/// Creates a histogram with three significant digits.
fn histogram() -> Histogram<u64> {
    let histogram = Histogram::new_with_bounds(1, MOST_NS, 3);
    histogram.unwrap_or_else(|_| unreachable!("the bounds are constant and valid"))
}

/// Returns the CPU time of this thread.
#[inline]
fn own_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
