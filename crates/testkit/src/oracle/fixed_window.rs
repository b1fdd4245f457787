//! The oracle of `fixed_window`: only the charges of the current window count.

use tidegate_core::{Limit, Micros, Window};

use super::history::History;
use super::{CivilWindows, Oracle};

/// A `fixed_window` counter: only the charges of the current window count.
#[derive(Clone)]
pub struct FixedWindow {
    limit: Limit,
    windows: Windows,
    history: History,
}

#[derive(Clone)]
enum Windows {
    Period { us: u64 },
    Civil(CivilWindows),
}

impl Windows {
    /// Returns a number that identifies the window that contains `at`. Later windows have larger numbers.
    fn number(&self, at: Micros) -> u64 {
        match self {
            Self::Period { us } => at.0 / us,
            Self::Civil(windows) => windows.start_of(at).0,
        }
    }
}

impl FixedWindow {
    /// Creates a counter that was never charged.
    pub fn new(limit: &Limit) -> Self {
        let windows = match limit.window() {
            Window::Period { us } => Windows::Period { us: *us },
            Window::Calendar(calendar) => {
                Windows::Civil(CivilWindows::new(calendar.unit(), calendar.zone_name()))
            }
        };
        Self { limit: limit.clone(), windows, history: History::default() }
    }

    fn used(&self, at: Micros) -> i128 {
        let window = self.windows.number(at);
        self.history.units(|charged_at| self.windows.number(charged_at) == window)
    }
}

impl Oracle for FixedWindow {
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
        let (windows, window) = (&self.windows, self.windows.number(now));
        self.history.refund(now, cost, |at| windows.number(at) == window);
    }

    fn discard_future(&mut self, now: Micros) {
        let ahead = |last| self.windows.number(last) > self.windows.number(now);
        if self.history.last_write().is_some_and(ahead) {
            self.history.forget();
        }
    }

    fn relimit(&mut self, limit: &Limit, _now: Micros) {
        self.limit = limit.clone();
    }

    /// A fixed window resets when it ends, charged or not.
    fn reset(&self, now: Micros, at: Micros) -> bool {
        self.windows.number(at) != self.windows.number(now)
    }
}
