//! Every algorithm once more: slow, exact, and written from its meaning.
//!
//! An oracle remembers what happened (the charges with their times, or tokens as an exact fraction)
//! and answers one question from scratch: does this cost fit at that time? Everything else is found
//! by asking it again: `retry_after` by searching for the first moment at which it says yes,
//! `remaining` by searching for the largest cost. So the oracles share no formula with the code.

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

/// One key under one limit, as slowly and plainly as can be.
pub trait Oracle {
    /// A copy to try things on.
    fn fork(&self) -> Box<dyn Oracle>;

    /// Whether `cost` fits at `at`, given what has happened so far.
    fn fits(&self, cost: u64, at: Micros, hold: bool) -> bool;

    /// Whether at `at` nothing that happened so far counts any more.
    fn untouched(&self, at: Micros) -> bool;

    /// Charges, whether it fits or not.
    fn take(&mut self, cost: u64, now: Micros);

    /// Refunds, never above full.
    fn give_back(&mut self, cost: u64, now: Micros);

    /// Drops what cannot have been written by `now`: the clock stepped back.
    fn see_from(&mut self, now: Micros);

    /// The limit's numbers change; the counter stays.
    fn relimit(&mut self, limit: &Limit, now: Micros);

    /// What a charge settles for good even if it is denied.
    fn carry_on(&mut self, _now: Micros) {}

    /// Whether a limit last looked at `now` counts as reset at `at`.
    fn reset(&self, _now: Micros, at: Micros) -> bool {
        self.untouched(at)
    }

    /// Whether a charge may be held until all before it has drained.
    fn queues(&self) -> bool {
        false
    }
}

impl Clone for Box<dyn Oracle> {
    fn clone(&self) -> Self {
        self.fork()
    }
}

/// The oracle of a limit, for a key that was never charged.
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

/// What would become of a charge, found by asking the oracle again and again.
pub fn assess(oracle: &dyn Oracle, cost: u64, now: Micros, hold: bool) -> Verdict {
    let mut before = oracle.fork();
    before.see_from(now);
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

/// Assesses a charge and, if it fits, takes it.
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
