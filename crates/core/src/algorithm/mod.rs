//! The algorithms: pure functions of limit, state, cost and time.
//!
//! Each folder has the same three functions. `assess` says what would become of a charge and changes
//! nothing; `take` charges, whether it fits or not, saturating at what the limit can hold;
//! `give_back` refunds, never above full. Everything else is made of these. Beside them,
//! `give_back_taken` and `overdraw` put a charge right whose cost was an estimate.
//!
//! When a clock jumps: a stored time that this limit cannot have written by `now` counts as now.
//! So nobody is locked out for longer than their window, and one jump admits at most one more limit.
//!
//! Beside each stands the same in Lua, for stores that settle where their data is. A script only finds
//! out whether a charge fits and what becomes of the state; what else a verdict says follows from the
//! state it found, and is worked out here.

pub mod arrival;
pub mod concurrency;
mod correction;
pub mod fixed_window;
pub mod leaky_bucket;
pub mod sliding_log;
pub mod sliding_window;
pub mod sub_windows;
pub mod token_bucket;

pub use self::correction::Taken;
use crate::{Limit, Micros, Verdict};

/// What the algorithms' scripts count with where Lua's own numbers are not exact.
pub const WIDE_SCRIPT: &str = include_str!("../wide.lua");

/// Which algorithm, with its own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// One counter per window, aligned to the epoch or a calendar.
    FixedWindow,
    /// Two counters: the current window, and the previous one weighed by how much of it is still
    /// within the last window's length.
    SlidingWindow,
    /// The window as a ring of smaller fixed ones.
    SubWindows {
        /// How many.
        buckets: u32,
    },
    /// A stamp per request: exact.
    SlidingLog,
    /// Tokens that refill steadily up to `burst`; GCRA is the same function.
    TokenBucket {
        /// The most that may pass at once.
        burst: u64,
    },
    /// A bucket that drains steadily and holds `burst`.
    LeakyBucket {
        /// How much the bucket holds.
        burst: u64,
        /// Whether what does not fit the rate is denied or may be held.
        mode: LeakyMode,
    },
    /// Holders at once, each with a time-out.
    Concurrency,
}

/// What a leaky bucket does with a charge that has to wait for the bucket to drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeakyMode {
    /// Lets it pass while there is room in the bucket, denies it otherwise.
    Meter,
    /// Says how long to hold it, so that what comes out is evenly spaced.
    Queue,
}

impl Algorithm {
    /// The name rule files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindow => "sliding_window",
            Self::SubWindows { .. } => "sub_windows",
            Self::SlidingLog => "sliding_log",
            Self::TokenBucket { .. } => "token_bucket",
            Self::LeakyBucket { .. } => "leaky_bucket",
            Self::Concurrency => "concurrency",
        }
    }
}

/// What a limit remembers of one key. [`Limit::fresh`] makes the one that remembers nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of `fixed_window`.
    FixedWindow(fixed_window::State),
    /// Of `sliding_window`.
    SlidingWindow(sliding_window::State),
    /// Of `sub_windows`.
    SubWindows(sub_windows::State),
    /// Of `sliding_log`.
    SlidingLog(sliding_log::State),
    /// Of `token_bucket` and `leaky_bucket`.
    Arrival(arrival::State),
    /// Of `concurrency`.
    Concurrency(concurrency::State),
}

impl State {
    /// When nothing of this state counts any more under the limit that wrote it.
    pub fn expires(&self, limit: &Limit) -> Micros {
        match self {
            Self::FixedWindow(state) => state.end,
            Self::SlidingWindow(state) => state.start.plus(2 * limit.period_us()),
            Self::SubWindows(state) => state.expires(limit),
            Self::SlidingLog(state) => state.expires(limit),
            Self::Arrival(state) => state.at.plus(1),
            Self::Concurrency(state) => state.expires(),
        }
    }
}

impl Limit {
    /// The state of a key that was never charged.
    #[inline]
    pub fn fresh(&self) -> State {
        match self.algorithm() {
            Algorithm::FixedWindow => State::FixedWindow(fixed_window::State::default()),
            Algorithm::SlidingWindow => State::SlidingWindow(sliding_window::State::default()),
            Algorithm::SubWindows { buckets } => {
                // Buckets shorter than a microsecond would tell nothing apart, and their numbers
                // would not fit 64 bits.
                let buckets = u64::from(buckets).min(self.period_us()) as u32;
                State::SubWindows(sub_windows::State::new(buckets))
            }
            Algorithm::SlidingLog => State::SlidingLog(sliding_log::State::default()),
            Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
                State::Arrival(arrival::State::default())
            }
            Algorithm::Concurrency => State::Concurrency(concurrency::State::default()),
        }
    }

    /// What would become of a charge of `cost`. Where `hold` is false, a queue's wait is a denial.
    ///
    /// A cost of 0 peeks: it is allowed unless the limit is already overdrawn. A state of another
    /// algorithm counts as fresh.
    #[inline]
    pub fn assess(&self, state: &State, cost: u64, now: Micros, hold: bool) -> Verdict {
        match (self.algorithm(), state) {
            (Algorithm::FixedWindow, State::FixedWindow(state)) => {
                fixed_window::assess(self, state, cost, now)
            }
            (Algorithm::SlidingWindow, State::SlidingWindow(state)) => {
                sliding_window::assess(self, state, cost, now)
            }
            (Algorithm::SubWindows { .. }, State::SubWindows(state)) => {
                sub_windows::assess(self, state, cost, now)
            }
            (Algorithm::SlidingLog, State::SlidingLog(state)) => sliding_log::assess(self, state, cost, now),
            (Algorithm::TokenBucket { .. }, State::Arrival(state)) => {
                token_bucket::assess(self, state, cost, now)
            }
            (Algorithm::LeakyBucket { .. }, State::Arrival(state)) => {
                leaky_bucket::assess(self, state, cost, now, hold)
            }
            (Algorithm::Concurrency, State::Concurrency(state)) => {
                concurrency::assess(self, state, cost, now)
            }
            _ => self.assess(&self.fresh(), cost, now, hold),
        }
    }

    /// Charges `cost` whether it fits or not, saturating at what the limit can hold.
    ///
    /// Concurrency is not charged but acquired: see [`concurrency::acquire`].
    #[inline]
    pub fn take(&self, state: &mut State, cost: u64, now: Micros) {
        match (self.algorithm(), &mut *state) {
            (Algorithm::FixedWindow, State::FixedWindow(state)) => {
                fixed_window::take(self, state, cost, now);
            }
            (Algorithm::SlidingWindow, State::SlidingWindow(state)) => {
                sliding_window::take(self, state, cost, now);
            }
            (Algorithm::SubWindows { .. }, State::SubWindows(state)) => {
                sub_windows::take(self, state, cost, now);
            }
            (Algorithm::SlidingLog, State::SlidingLog(state)) => {
                sliding_log::take(self, state, cost, now);
            }
            (Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, State::Arrival(state)) => {
                arrival::take(self, state, cost, now);
            }
            (Algorithm::Concurrency, State::Concurrency(_)) => {}
            _ => {
                *state = self.fresh();
                self.take(state, cost, now);
            }
        }
    }

    /// Gives `cost` back, never above full. What was charged last is given back first.
    #[inline]
    pub fn give_back(&self, state: &mut State, cost: u64, now: Micros) {
        match (self.algorithm(), state) {
            (Algorithm::FixedWindow, State::FixedWindow(state)) => {
                fixed_window::give_back(self, state, cost, now);
            }
            (Algorithm::SlidingWindow, State::SlidingWindow(state)) => {
                sliding_window::give_back(self, state, cost, now);
            }
            (Algorithm::SubWindows { .. }, State::SubWindows(state)) => {
                sub_windows::give_back(self, state, cost, now);
            }
            (Algorithm::SlidingLog, State::SlidingLog(state)) => {
                sliding_log::give_back(self, state, cost, now);
            }
            (Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, State::Arrival(state)) => {
                arrival::give_back(self, state, cost, now);
            }
            // A slot is given back by its lease; a state of another algorithm holds nothing of ours.
            _ => {}
        }
    }

    /// Carries a counter on after the limit's numbers have changed: what a bucket owes at `now` it
    /// owes from now on at the new rate. Charges do this first, even those that are denied; until
    /// then a bucket drains at the rate it was last written under. Counts need none of it.
    pub fn carry_on(&self, state: &mut State, now: Micros) {
        let drains =
            matches!(self.algorithm(), Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. });
        if let (true, State::Arrival(state)) = (drains, state) {
            *state = state.carried_on(self, now);
        }
    }

    /// Assesses a charge and, if it fits, takes it.
    pub fn charge(&self, state: &mut State, cost: u64, now: Micros) -> Verdict {
        let verdict = self.assess(state, cost, now, false);
        if verdict.allowed() && cost > 0 {
            self.take(state, cost, now);
        } else if cost > 0 {
            self.carry_on(state, now);
        }
        verdict
    }
}
