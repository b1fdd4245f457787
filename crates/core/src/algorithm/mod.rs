//! The algorithms: pure functions of limit, state, cost and time.
//!
//! Each folder has the same three functions. `assess` returns the verdict of a charge and changes
//! nothing. `take` charges, whether the charge fits or not, saturating at what the limit can hold.
//! `give_back` refunds, never above full. All other operations are built from these. In addition,
//! `give_back_taken` and `overdraw` correct a charge whose cost was an estimate.
//!
//! When a clock jumps, a stored time that this limit cannot have written by `now` counts as now. So no client is
//! locked out for longer than its window, and one jump admits at most one extra limit.
//!
//! Each folder also has a Lua script, for stores that settle charges where their data is. A script only
//! decides whether a charge fits and computes the new state. The other numbers of a verdict follow from
//! the state that the script found, and are computed here.

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

/// Lua functions for integers beyond 2^53, which the scripts of the algorithms use.
pub const WIDE_SCRIPT: &str = include_str!("../wide.lua");

/// An algorithm with the fields that only it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// One counter per window, aligned to the epoch or a calendar.
    FixedWindow,
    /// Two counters: the current window, and the previous one weighted by the share of it that is less
    /// than one window's length ago.
    SlidingWindow,
    /// The window as a ring of smaller fixed windows.
    SubWindows {
        /// The number of smaller windows.
        buckets: u32,
    },
    /// A timestamp per request: exact over any window.
    SlidingLog,
    /// Tokens that refill steadily up to `burst`. GCRA gives the same decisions.
    TokenBucket {
        /// The most units that may pass at once.
        burst: u64,
    },
    /// A bucket that drains steadily and holds `burst` units.
    LeakyBucket {
        /// The units that the bucket holds.
        burst: u64,
        /// Whether requests that exceed the rate are denied or held.
        mode: LeakyMode,
    },
    /// Slots held at once, each with a timeout.
    Concurrency,
}

/// What a leaky bucket does with a charge while the bucket is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeakyMode {
    /// Allows the charge while there is room in the bucket, else denies it.
    Meter,
    /// Returns how long to hold the request, so that requests leave evenly spaced.
    Queue,
}

impl Algorithm {
    /// Returns the name of the algorithm in rule files.
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

/// The state that a limit stores for one key. [`Limit::fresh`] returns the state of a key without charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The state of `fixed_window`.
    FixedWindow(fixed_window::State),
    /// The state of `sliding_window`.
    SlidingWindow(sliding_window::State),
    /// The state of `sub_windows`.
    SubWindows(sub_windows::State),
    /// The state of `sliding_log`.
    SlidingLog(sliding_log::State),
    /// The state of `token_bucket` and `leaky_bucket`.
    Arrival(arrival::State),
    /// The state of `concurrency`.
    Concurrency(concurrency::State),
}

impl State {
    /// Returns the time from which this state is equal to a fresh one, under the limit that wrote it.
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
    /// Returns the state of a key that was never charged.
    #[inline]
    pub fn fresh(&self) -> State {
        match self.algorithm() {
            Algorithm::FixedWindow => State::FixedWindow(fixed_window::State::default()),
            Algorithm::SlidingWindow => State::SlidingWindow(sliding_window::State::default()),
            Algorithm::SubWindows { buckets } => {
                // Buckets shorter than a microsecond would add no precision, and their numbers would
                // not fit into 64 bits.
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

    /// Returns the verdict of a charge of `cost` without charging it. `hold` tells whether the caller can hold a
    /// request: if not, a wait in a queue is a denial.
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

    /// Charges `cost`, whether it fits or not, saturating at what the limit can hold.
    ///
    /// Does nothing for concurrency, whose slots are acquired with [`concurrency::acquire`].
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

    /// Refunds `cost`, never above full. The newest charges are refunded first.
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
            // Slots are returned with `concurrency::release`. A state of another algorithm holds no charge
            // of this limit.
            _ => {}
        }
    }

    /// Adapts a counter to changed numbers of its limit: from `now` on, the debt of a bucket drains at the
    /// new rate. Every charge does this first, even one that is denied. Until then a bucket drains at the
    /// rate it was last written with. Does nothing for the other algorithms, which store counts.
    pub fn carry_on(&self, state: &mut State, now: Micros) {
        let drains =
            matches!(self.algorithm(), Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. });
        if let (true, State::Arrival(state)) = (drains, state) {
            *state = state.carried_on(self, now);
        }
    }

    /// Charges `cost` if it fits, for a caller that cannot hold a request, and returns the verdict.
    pub fn charge(&self, state: &mut State, cost: u64, now: Micros) -> Verdict {
        let verdict = self.assess(state, cost, now, false);
        if verdict.allowed() && cost > 0 {
            self.take(state, cost, now);
        } else if cost > 0 {
            self.carry_on(state, now);
        }
        verdict
    }

    /// Returns whether part of a cost can be charged with [`Limit::charge_up_to`]. That is not possible for slots,
    /// which have a holder each, nor for a queue, which returns a wait per request.
    pub fn is_divisible(&self) -> bool {
        self.algorithm() != Algorithm::Concurrency && !self.queues()
    }

    /// Charges as many of `units` as fit now. Returns how many that is, and the verdict of a charge of that many;
    /// if none fits, 0 and the denial of a charge of 1. The limit must be divisible.
    pub fn charge_up_to(&self, state: &mut State, units: u64, now: Micros) -> (u64, Verdict) {
        let room = self.assess(state, 0, now, false).remaining;
        let units = units.min(room.max(1));
        let verdict = self.charge(state, units, now);
        (if verdict.allowed() { units } else { 0 }, verdict)
    }
}
