//! A second implementation of every algorithm: slow, exact, and written from the definition.
//!
//! An oracle records what happened (the charges with their times, or tokens as an exact fraction) and
//! computes one thing from scratch: whether a cost fits at a time. Everything else is found by searching:
//! `retry_after` is the first time at which the cost fits, `remaining` the largest cost that fits. So the
//! oracles share no formula with the product.

mod calendar;
mod concurrency;
mod fixed_window;
mod history;
mod leaky_bucket;
mod search;
mod sliding_log;
mod sliding_window;
mod sub_windows;
mod token_bucket;

pub use calendar::CivilWindows;
pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use leaky_bucket::LeakyBucket;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use sub_windows::SubWindows;
pub use token_bucket::TokenBucket;

use tidegate_core::{Algorithm, Limit, Micros, NEVER_US, Outcome, Verdict};

/// An exact fraction.
pub type Exact = num_rational::Ratio<i128>;

/// The state of one key under one limit, implemented as slowly and plainly as possible.
pub trait Oracle {
    /// Returns an independent copy.
    fn fork(&self) -> Box<dyn Oracle>;

    /// Returns whether `cost` fits at `at`, given what has happened so far.
    fn fits(&self, cost: u64, at: Micros, hold: bool) -> bool;

    /// Returns whether no charge so far counts any more at `at`.
    fn untouched(&self, at: Micros) -> bool;

    /// Charges, whether it fits or not.
    fn take(&mut self, cost: u64, now: Micros);

    /// Refunds, never above full.
    fn give_back(&mut self, cost: u64, now: Micros);

    /// Drops the history that cannot have been written by `now`, because the clock stepped back.
    fn discard_future(&mut self, now: Micros);

    /// Changes the numbers of the limit. The counter continues.
    fn relimit(&mut self, limit: &Limit, now: Micros);

    /// Makes the change to the state that a charge makes even if it is denied.
    fn carry_on(&mut self, _now: Micros) {}

    /// Returns whether a limit that was assessed at `now` counts as reset at `at`.
    fn reset(&self, _now: Micros, at: Micros) -> bool {
        self.untouched(at)
    }

    /// Returns whether a charge may be held until all before it has drained.
    fn queues(&self) -> bool {
        false
    }
}

impl Clone for Box<dyn Oracle> {
    fn clone(&self) -> Self {
        self.fork()
    }
}

/// Returns the oracle of a limit, for a key that was never charged.
pub fn of(limit: &Limit) -> Box<dyn Oracle> {
    match limit.algorithm() {
        Algorithm::FixedWindow => Box::new(FixedWindow::new(limit)),
        Algorithm::SlidingWindow => Box::new(SlidingWindow::new(limit)),
        Algorithm::SubWindows { .. } => Box::new(SubWindows::new(limit)),
        Algorithm::SlidingLog => Box::new(SlidingLog::new(limit)),
        Algorithm::TokenBucket { .. } => Box::new(TokenBucket::new(limit)),
        Algorithm::LeakyBucket { .. } => Box::new(LeakyBucket::new(limit)),
        Algorithm::Concurrency => Box::new(Concurrency::new(limit)),
    }
}

/// Returns the verdict of a charge without charging it, found by searching with [`Oracle::fits`].
pub fn assess(oracle: &dyn Oracle, cost: u64, now: Micros, hold: bool) -> Verdict {
    let mut before = oracle.fork();
    before.discard_future(now);
    let fits = before.fits(cost, now, hold);
    let outcome = if !fits {
        let retry = search::first_us(|us| before.fits(cost, now.plus(us), hold));
        Outcome::Denied { retry_after_us: retry.unwrap_or(NEVER_US) }
    } else if hold && cost > 0 && before.queues() && !before.untouched(now) {
        let wait = search::first_us(|us| before.untouched(now.plus(us)));
        Outcome::Held { wait_us: wait.unwrap_or(NEVER_US) }
    } else {
        Outcome::Allowed
    };
    let mut after = before;
    if fits && cost > 0 {
        after.take(cost, now);
    }
    let reset = search::first_us(|us| after.reset(now, now.plus(us)));
    Verdict {
        outcome,
        remaining: search::largest_cost(|cost| after.fits(cost, now, hold)),
        reset_after_us: reset.unwrap_or(NEVER_US),
    }
}

/// Charges if it fits, and returns the verdict.
pub fn charge(oracle: &mut dyn Oracle, cost: u64, now: Micros, hold: bool) -> Verdict {
    if cost > 0 {
        oracle.carry_on(now);
    }
    let verdict = assess(oracle, cost, now, hold);
    if verdict.allowed() && cost > 0 {
        oracle.take(cost, now);
    }
    verdict
}
