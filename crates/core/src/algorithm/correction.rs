//! Correcting a charge once its true cost is known: what was too much goes back to where it came from, what
//! was too little is charged although it may not fit.

use super::{Algorithm, State, arrival, fixed_window, sliding_log, sliding_window, sub_windows};
use crate::{Limit, Micros};

/// What a refund has to know of the charge it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When it was taken.
    pub at: Micros,
    /// When the limit would have been untouched again, had nothing more been charged.
    pub clear_at: Micros,
}

impl Limit {
    /// Gives `cost` of an earlier charge back, to where that was taken. What does not count any more is
    /// not given back.
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
            // A slot is given back by its lease; a state of another algorithm holds nothing of ours.
            _ => {}
        }
    }

    /// Charges `cost` that was used already. Unlike [`Limit::take`] it is all owed: a bucket has to drain
    /// what it cannot hold, and a log counts it.
    ///
    /// Windows count beyond their limit either way. What is overdrawn there is forgotten with the window.
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
