//! Sub-windows: time is cut into buckets, and what was charged in the current bucket and the
//! `buckets - 1` before it counts.

use tidegate_core::{Algorithm, Limit, Micros};

use super::Oracle;
use super::history::History;

/// See the module.
#[derive(Clone)]
pub struct SubWindows {
    limit: Limit,
    cut: Cut,
    history: History,
}

/// How time is cut: bucket `i` is from `i x period / buckets` up to the next one's beginning.
#[derive(Clone, Copy)]
struct Cut {
    buckets: u128,
    period_us: u128,
}

impl Cut {
    fn bucket(self, at: Micros) -> u128 {
        u128::from(at.0) * self.buckets / self.period_us
    }

    /// Whether what was charged then still counts at `at`.
    fn counts(self, charged_at: Micros, at: Micros) -> bool {
        self.bucket(charged_at) <= self.bucket(at) && self.bucket(at) < self.bucket(charged_at) + self.buckets
    }
}

impl SubWindows {
    /// A counter that was never charged.
    ///
    /// # Panics
    /// If the limit is not of this algorithm.
    pub fn new(limit: &Limit) -> Self {
        let Algorithm::SubWindows { buckets } = limit.algorithm() else {
            panic!("{} has no buckets", limit.algorithm().name());
        };
        let cut = Cut { buckets: u128::from(buckets), period_us: u128::from(limit.period_us()) };
        Self { limit: limit.clone(), cut, history: History::default() }
    }

    fn used(&self, at: Micros) -> i128 {
        self.history.units(|charged_at| self.cut.counts(charged_at, at))
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
        self.see_from(now);
        self.history.add_up_to_max(now, cost, self.used(now));
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.see_from(now);
        let cut = self.cut;
        self.history.refund(now, cost, |at| cut.counts(at, now));
    }

    fn see_from(&mut self, now: Micros) {
        if self.history.last_write().is_some_and(|last| self.cut.bucket(last) > self.cut.bucket(now)) {
            self.history.forget();
        }
    }

    fn relimit(&mut self, limit: &Limit, _now: Micros) {
        self.limit = limit.clone();
    }
}
