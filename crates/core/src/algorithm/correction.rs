//! Corrects a charge once its true cost is known. If too much was charged, the rest is refunded to the
//! window it was charged in; if too little, the rest is charged even if it does not fit.

use super::{Algorithm, State, arrival, fixed_window, sliding_log, sliding_window, sub_windows};
use crate::{Limit, Micros};

/// An earlier charge, as needed to refund it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When the charge was made.
    pub at: Micros,
    /// When the limit would have been unused again if nothing more had been charged.
    pub clear_at: Micros,
}

impl Limit {
    /// Refunds `cost` of an earlier charge to the window or bucket that it was charged in. Units that no
    /// longer count, because their window has passed or they have drained, are not refunded.
    pub fn give_back_taken(&self, state: &mut State, cost: u64, taken: Taken, now: Micros) {
        match (self.algorithm(), state) {
            (Algorithm::FixedWindow, State::FixedWindow(state)) => {
                fixed_window::give_back_taken(self, state, cost, taken, now);
            }
            (Algorithm::SlidingWindow, State::SlidingWindow(state)) => {
                sliding_window::give_back_taken(self, state, cost, taken, now);
            }
            (Algorithm::SubWindows { .. }, State::SubWindows(state)) => {
                sub_windows::give_back_taken(self, state, cost, taken, now);
            }
            (Algorithm::SlidingLog, State::SlidingLog(state)) => {
                sliding_log::give_back_taken(self, state, cost, taken, now);
            }
            (Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, State::Arrival(state)) => {
                arrival::give_back_taken(self, state, cost, taken, now);
            }
            // Slots are returned with `concurrency::release`. A state of another algorithm holds no charge
            // of this limit.
            _ => {}
        }
    }

    /// Charges `cost` that has been used already. Unlike [`Limit::take`] this does not saturate at what the
    /// limit can hold: a bucket has to drain all of it, and a log counts all of it.
    ///
    /// Windows count beyond their limit in both cases. What is overdrawn there is forgotten with the window.
    pub fn overdraw(&self, state: &mut State, cost: u64, now: Micros) {
        match (self.algorithm(), &mut *state) {
            (Algorithm::SlidingLog, State::SlidingLog(state)) => {
                sliding_log::overdraw(self, state, cost, now);
            }
            (Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, State::Arrival(state)) => {
                arrival::overdraw(self, state, cost, now);
            }
            (Algorithm::SlidingLog | Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, _) => {
                *state = self.fresh();
                self.overdraw(state, cost, now);
            }
            _ => self.take(state, cost, now),
        }
    }
}
