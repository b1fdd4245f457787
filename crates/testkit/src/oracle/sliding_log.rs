//! A sliding log: what was charged less than a period ago counts.

use tidegate_core::{Limit, Micros};

use super::Oracle;
use super::history::History;

/// See the module.
#[derive(Clone)]
pub struct SlidingLog {
    limit: Limit,
    history: History,
}

impl SlidingLog {
    /// A log without entries.
    pub fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), history: History::default() }
    }

    fn used(&self, at: Micros) -> i128 {
        self.history.units(|charged_at| at < charged_at.plus(self.limit.period_us()))
    }

    /// A write drops what counts no more, and all of a log that reaches past now.
    fn tidy(&mut self, now: Micros) {
        self.see_from(now);
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

    /// The log has `requests` entries at most: older ones make room.
    fn take(&mut self, cost: u64, now: Micros) {
        self.tidy(now);
        let cost = cost.min(self.limit.requests());
        if cost > 0 {
            self.history.add(now, cost);
            self.history.keep_newest(self.limit.requests());
        }
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.tidy(now);
        self.history.refund(now, cost, |_| true);
    }

    fn see_from(&mut self, now: Micros) {
        if self.history.reaches_past(now) {
            self.history.forget();
        }
    }

    fn relimit(&mut self, limit: &Limit, _now: Micros) {
        self.limit = limit.clone();
    }
}
