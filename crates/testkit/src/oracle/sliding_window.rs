//! The oracle of `sliding_window`: charges of the current window count in full; charges of the previous one
//! are weighted by the share of it that lies within one window's length before now.

use tidegate_core::{Limit, Micros};

use super::history::History;
use super::{Exact, Oracle};

/// A `sliding_window` counter: the current window, and the previous one by its overlap.
#[derive(Clone)]
pub struct SlidingWindow {
    limit: Limit,
    history: History,
}

impl SlidingWindow {
    /// Creates a counter that was never charged.
    pub fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), history: History::default() }
    }

    fn window(&self, at: Micros) -> u64 {
        at.0 / self.limit.period_us()
    }

    /// Returns the units charged in the window that lies `before` windows before the one that contains `at`.
    fn units(&self, at: Micros, before: u64) -> i128 {
        let window = self.window(at).checked_sub(before);
        self.history.units(|charged_at| Some(self.window(charged_at)) == window)
    }

    fn used(&self, at: Micros) -> Exact {
        let period_us = i128::from(self.limit.period_us());
        let elapsed = Exact::new(i128::from(at.0) % period_us, period_us);
        let overlap = Exact::from(1) - elapsed;
        Exact::from(self.units(at, 0)) + Exact::from(self.units(at, 1)) * overlap
    }
}

impl Oracle for SlidingWindow {
    fn fork(&self) -> Box<dyn Oracle> {
        Box::new(self.clone())
    }

    fn fits(&self, cost: u64, at: Micros, _hold: bool) -> bool {
        self.used(at) + Exact::from(i128::from(cost)) <= Exact::from(i128::from(self.limit.requests()))
    }

    fn untouched(&self, at: Micros) -> bool {
        self.used(at) == Exact::from(0)
    }

    fn take(&mut self, cost: u64, now: Micros) {
        self.discard_future(now);
        self.history.add_up_to_max(now, cost, self.units(now, 0));
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.discard_future(now);
        let period_us = self.limit.period_us();
        let window = self.window(now);
        self.history.refund(now, cost, |at| at.0 / period_us + 1 >= window);
    }

    fn discard_future(&mut self, now: Micros) {
        if self.history.last_write().is_some_and(|last| self.window(last) > self.window(now)) {
            self.history.forget();
        }
    }

    fn relimit(&mut self, limit: &Limit, _now: Micros) {
        self.limit = limit.clone();
    }
}
