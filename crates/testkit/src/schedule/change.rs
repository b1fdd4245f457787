//! Random changes of a limit's numbers while its counter runs.

use proptest::prelude::*;
use tidegate_core::{Algorithm, LeakyMode, Limit, MAX_COUNT};

/// New numbers for a limit.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The new requests.
    pub requests: Number,
    /// The new burst, if the algorithm has one.
    pub burst: Number,
    /// Whether a leaky bucket's mode changes too.
    pub other_mode: bool,
}

/// How a new number is computed from the old one.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// The old number.
    Same,
    /// The old number plus this.
    Plus(i64),
    /// The old number multiplied by this.
    Times(u64),
    /// The old number divided by this.
    Over(u64),
    /// This number.
    Exactly(u64),
}

impl Number {
    fn from(self, old: u64) -> u64 {
        match self {
            Self::Same => old,
            Self::Plus(more) => old.saturating_add_signed(more),
            Self::Times(factor) => old.saturating_mul(factor),
            Self::Over(divisor) => old / divisor,
            Self::Exactly(new) => new,
        }
    }
}

impl Change {
    /// Returns the changed limit, or `None` if the new numbers are invalid.
    pub fn apply(self, limit: &Limit) -> Option<Limit> {
        let algorithm = match limit.algorithm() {
            Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: self.burst.from(burst) },
            Algorithm::LeakyBucket { burst, mode } => {
                let mode = match (mode, self.other_mode) {
                    (LeakyMode::Meter, true) | (LeakyMode::Queue, false) => LeakyMode::Queue,
                    (LeakyMode::Queue, true) | (LeakyMode::Meter, false) => LeakyMode::Meter,
                };
                Algorithm::LeakyBucket { burst: self.burst.from(burst), mode }
            }
            other => other,
        };
        Limit::new(algorithm, self.requests.from(limit.requests()), limit.window().clone()).ok()
    }
}

/// Generates changes of one number or both, small ones, large ones, and to zero.
pub fn changes() -> impl Strategy<Value = Change> {
    (numbers(), numbers(), prop::bool::weighted(0.1)).prop_map(|(requests, burst, other_mode)| Change {
        requests,
        burst,
        other_mode,
    })
}

fn numbers() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => Just(Number::Same),
        3 => prop_oneof![-3_i64..=-1, 1_i64..=3].prop_map(Number::Plus),
        2 => prop_oneof![2_u64..=4, Just(1_024), Just(2_048)].prop_map(Number::Times),
        2 => prop_oneof![2_u64..=4, Just(1_024), Just(2_048)].prop_map(Number::Over),
        1 => (0_u64..=20).prop_map(Number::Exactly),
        1 => (0..=MAX_COUNT).prop_map(Number::Exactly),
    ]
}
