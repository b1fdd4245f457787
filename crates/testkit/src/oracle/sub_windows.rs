//! The oracle of `sub_windows`: time is divided into buckets, and the charges of the current bucket and of
//! the `buckets - 1` before it count.

use tidegate_core::{Algorithm, Limit, Micros};

use super::Oracle;
use super::history::History;

/// A `sub_windows` counter: charges in the last `buckets` buckets count.
#[derive(Clone)]
pub struct SubWindows {
    limit: Limit,
    grid: BucketGrid,
    history: History,
}

/// The division of time into buckets: bucket `i` begins at `i x period / buckets`.
#[derive(Clone, Copy)]
struct BucketGrid {
    buckets: u128,
    period_us: u128,
}

impl BucketGrid {
    fn bucket(self, at: Micros) -> u128 {
        u128::from(at.0) * self.buckets / self.period_us
    }

    /// Returns whether a charge at `charged_at` still counts at `at`.
    fn counts(self, charged_at: Micros, at: Micros) -> bool {
        self.bucket(charged_at) <= self.bucket(at) && self.bucket(at) < self.bucket(charged_at) + self.buckets
    }
}

impl SubWindows {
    /// Creates a counter that was never charged.
    ///
    /// # Panics
    /// Panics if the algorithm of the limit is not `sub_windows`.
    pub fn new(limit: &Limit) -> Self {
        let Algorithm::SubWindows { buckets } = limit.algorithm() else {
            panic!("{} has no buckets", limit.algorithm().name());
        };
        let grid = BucketGrid { buckets: u128::from(buckets), period_us: u128::from(limit.period_us()) };
        Self { limit: limit.clone(), grid, history: History::default() }
    }

    fn used(&self, at: Micros) -> i128 {
        self.history.units(|charged_at| self.grid.counts(charged_at, at))
    }
}

impl Oracle for SubWindows {
    fn fork(&self) -> Box<dyn Oracle> {
        Box::new(self.clone())
    }

    fn fits(&self, cost: u64, at: Micros, _hold: bool) -> bool {
        self.used(at) + i128::from(cost) <= i128::from(self.limit.requests())
    }

    fn untouched(&self, at: Micros) -> bool {
        self.used(at) == 0
    }

    fn take(&mut self, cost: u64, now: Micros) {
        self.discard_future(now);
        self.history.add_up_to_max(now, cost, self.used(now));
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.discard_future(now);
        let grid = self.grid;
        self.history.refund(now, cost, |at| grid.counts(at, now));
    }

    fn discard_future(&mut self, now: Micros) {
        if self.history.last_write().is_some_and(|last| self.grid.bucket(last) > self.grid.bucket(now)) {
            self.history.forget();
        }
    }

    fn relimit(&mut self, limit: &Limit, _now: Micros) {
        self.limit = limit.clone();
    }
}
