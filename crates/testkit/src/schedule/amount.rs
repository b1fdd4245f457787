//! Random amounts, relative to the limit.

use proptest::prelude::*;
use tidegate_core::{Limit, MAX_COUNT};

/// Units to charge or refund.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// This number of units.
    Units(u64),
    /// The units that remain, plus `plus`.
    Remaining {
        /// A difference of at most one.
        plus: i64,
    },
    /// The burst, plus `plus`.
    Burst {
        /// A difference of at most one.
        plus: i64,
    },
    /// This number of sixteenths of the burst.
    Sixteenths(u64),
}

impl Amount {
    /// Returns the number of units when `remaining` are left of `limit`.
    pub fn units(self, limit: &Limit, remaining: u64) -> u64 {
        match self {
            Self::Units(units) => units,
            Self::Remaining { plus } => remaining.saturating_add_signed(plus),
            Self::Burst { plus } => limit.burst().saturating_add_signed(plus),
            Self::Sixteenths(parts) => (u128::from(limit.burst()) * u128::from(parts) / 16) as u64,
        }
    }
}

/// Generates mostly the costs that are common in practice; also zero, the bounds, and far too much.
pub(super) fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        10 => Just(Amount::Units(1)),
        6 => (2_u64..=5).prop_map(Amount::Units),
        1 => Just(Amount::Units(0)),
        6 => (-1_i64..=1).prop_map(|plus| Amount::Remaining { plus }),
        3 => (-1_i64..=1).prop_map(|plus| Amount::Burst { plus }),
        6 => (1_u64..=15).prop_map(Amount::Sixteenths),
        1 => (1..=MAX_COUNT).prop_map(Amount::Units),
        1 => Just(Amount::Units(u64::MAX)),
    ]
}
