//! The oracle of `sliding_log`: charges less than a period ago count.

use tidegate_core::{Limit, Micros};

use super::Oracle;
use super::history::History;

/// A sliding log: charges less than a period ago count.
#[derive(Clone)]
pub struct SlidingLog {
    limit: Limit,
    history: History,
}

impl SlidingLog {
    /// Creates a log without entries.
    pub fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), history: History::default() }
    }

    fn used(&self, at: Micros) -> i128 {
        self.history.units(|charged_at| at < charged_at.plus(self.limit.period_us()))
    }

    /// Drops expired entries, and all entries if any of them lies in the future. Called before each write.
    fn prune(&mut self, now: Micros) {
        self.discard_future(now);
        let period_us = self.limit.period_us();
        self.history.keep(|at| now < at.plus(period_us));
    }
}

impl Oracle for SlidingLog {
    fn fork(&self) -> Box<dyn Oracle> {
        Box::new(self.clone())
    }

    fn fits(&self, cost: u64, at: Micros, _hold: bool) -> bool {
        self.used(at) + i128::from(cost) <= i128::from(self.limit.requests())
    }

    fn untouched(&self, at: Micros) -> bool {
        self.used(at) == 0
    }

    /// The log has at most `requests` units: the oldest are dropped.
    fn take(&mut self, cost: u64, now: Micros) {
        self.prune(now);
        let cost = cost.min(self.limit.requests());
        if cost > 0 {
            self.history.add(now, cost);
            self.history.keep_newest(self.limit.requests());
        }
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.prune(now);
        self.history.refund(now, cost, |_| true);
    }

    fn discard_future(&mut self, now: Micros) {
        if self.history.reaches_past(now) {
            self.history.forget();
        }
    }

    fn relimit(&mut self, limit: &Limit, _now: Micros) {
        self.limit = limit.clone();
    }
}
