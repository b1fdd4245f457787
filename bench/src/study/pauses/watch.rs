//! Times decisions one by one.

use hdrhistogram::Histogram;
use quanta::Clock;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The longest time that is told apart from longer ones: ten seconds.
const MOST_NS: u64 = 10_000_000_000;

/// A stop watch for one thread.
///
/// Time on the wall includes what the machine does to a thread, such as giving its core to another;
/// the thread's own time does not, but neither does it include waiting for a lock.
pub(super) struct Watch {
    clock: Clock,
    wall: Histogram<u64>,
    own: Histogram<u64>,
    own_before_ns: u64,
    /// The longest since it was last asked for.
    recent: Pause,
}

/// A pause by both clocks.
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

    /// Does something and remembers how long it took. The thread's own time is read once for each,
    /// so it is that from the end of one to the end of the next.
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

    /// The longest pause since the last call.
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

    /// Once in how many decisions there was a pause of how many microseconds.
    fn curve(&self) -> Vec<(f64, f64)> {
        let steps = (0..=70).map(|step| 10_f64.powf(f64::from(step) / 10.0));
        let steps = steps.take_while(|once_in| *once_in <= self.wall.len() as f64);
        steps
            .map(|once_in| (once_in, self.wall.value_at_quantile(1.0 - 1.0 / once_in) as f64 / 1e3))
            .collect()
    }
}

/// How long a kind of step took.
#[derive(Serialize)]
pub(super) struct Pauses {
    pub(super) count: u64,
    pub(super) median_us: f64,
    pub(super) p999_us: f64,
    pub(super) p99999_us: f64,
    pub(super) longest_us: f64,
    /// By the thread's own time.
    pub(super) longest_own_us: f64,
    #[serde(skip)]
    pub(super) curve: Vec<(f64, f64)>,
}

/// Three digits of each time are kept.
fn histogram() -> Histogram<u64> {
    let histogram = Histogram::new_with_bounds(1, MOST_NS, 3);
    histogram.unwrap_or_else(|_| unreachable!("the bounds are constant and valid"))
}

/// Processor time of this thread.
#[inline]
fn own_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
