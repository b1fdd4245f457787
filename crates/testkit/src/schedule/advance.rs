//! Random steps of time, relative to the limit.

use proptest::prelude::*;
use tidegate_core::{Algorithm, Limit, Micros, Window};

/// Time that passes before a step.
#[derive(Clone, Copy, Debug)]
pub enum Advance {
    /// This number of microseconds.
    Us(u64),
    /// A number of sixteenths of a length of time that depends on the limit.
    Sixteenths {
        /// The number of sixteenths.
        parts: u64,
        /// The length of time.
        of: Scale,
    },
    /// Until the next boundary of the limit's windows, plus `plus`.
    ToEdge {
        /// A difference of at most one microsecond.
        plus: i64,
    },
    /// Until the last denied charge fits, plus `plus`.
    ToRetry {
        /// A difference of at most one microsecond.
        plus: i64,
    },
    /// The clock steps back by `parts` sixteenths of `of`, and `us` microseconds.
    Back {
        /// The number of sixteenths.
        parts: u64,
        /// The length of time.
        of: Scale,
        /// Additional microseconds.
        us: u64,
    },
}

/// A length of time that depends on the limit.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// The window.
    Period,
    /// The time in which a fully used limit becomes unused again.
    Drain,
    /// The time per unit at the steady rate.
    Unit,
}

/// Tests stay below 2^53 us, which is in the year 2255.
const LATEST_US: u64 = 1 << 53;

impl Scale {
    /// Returns the length in microseconds, at least 1.
    pub fn us(self, limit: &Limit) -> u64 {
        let units = match self {
            Self::Period => return limit.period_us(),
            Self::Drain => limit.burst(),
            Self::Unit => 1,
        };
        let us = u128::from(units) * u128::from(limit.period_us()) / u128::from(limit.requests().max(1));
        us.clamp(1, u128::from(limit.period_us()) * 64) as u64
    }
}

impl Advance {
    /// Returns the time after this step, where `now` is the time before it and `retry_at` is when the last
    /// denied charge fits.
    pub fn from(self, limit: &Limit, now: Micros, retry_at: Micros) -> Micros {
        let sixteenths =
            |parts: u64, of: Scale| (u128::from(of.us(limit)) * u128::from(parts) / 16).min(1 << 53) as u64;
        let later = match self {
            Self::Us(us) => now.plus(us),
            Self::Sixteenths { parts, of } => now.plus(sixteenths(parts, of)),
            Self::ToEdge { plus } => Micros(next_edge(limit, now).0.saturating_add_signed(plus)).max(now),
            Self::ToRetry { plus } => Micros(retry_at.0.saturating_add_signed(plus)).max(now),
            Self::Back { parts, of, us } => return now.minus(sixteenths(parts, of)).minus(us),
        };
        if later.0 <= LATEST_US { later } else { now }
    }
}

fn next_edge(limit: &Limit, now: Micros) -> Micros {
    match (limit.window(), limit.algorithm()) {
        (Window::Period { us }, Algorithm::SubWindows { buckets }) => {
            let (buckets, period_us) = (u128::from(buckets), u128::from(*us));
            let next = u128::from(now.0) * buckets / period_us + 1;
            Micros((next * period_us).div_ceil(buckets) as u64)
        }
        (window, _) => window.span(now).end,
    }
}

fn scales() -> impl Strategy<Value = Scale> {
    prop_oneof![Just(Scale::Period), Just(Scale::Drain), Just(Scale::Unit)]
}

/// Generates steps forward: none, a few microseconds, to window boundaries, by parts of a window and by many
/// windows.
pub(super) fn forward() -> impl Strategy<Value = Advance> {
    prop_oneof![
        4 => Just(Advance::Us(0)),
        2 => (1_u64..=3).prop_map(Advance::Us),
        4 => (1_u64..=15, scales()).prop_map(|(parts, of)| Advance::Sixteenths { parts, of }),
        3 => (-1_i64..=1).prop_map(|plus| Advance::ToEdge { plus }),
        3 => (-1_i64..=1).prop_map(|plus| Advance::ToRetry { plus }),
        1 => (16_u64..=64, scales()).prop_map(|(parts, of)| Advance::Sixteenths { parts, of }),
        1 => (64_u64..=4_096, scales()).prop_map(|(parts, of)| Advance::Sixteenths { parts, of }),
    ]
}

/// Generates clock steps: by a microsecond, by parts of a window, by whole windows, to the epoch and far into
/// the future.
pub fn clock_steps() -> impl Strategy<Value = Advance> {
    prop_oneof![
        2 => (1_u64..=3).prop_map(|us| Advance::Back { parts: 0, of: Scale::Unit, us }),
        4 => (1_u64..=40, scales(), 0_u64..=1).prop_map(|(parts, of, us)| Advance::Back { parts, of, us }),
        1 => (1_u64..=4, scales()).prop_map(|(n, of)| Advance::Back { parts: 16 * n, of, us: 0 }),
        1 => (40_u64..=4_096, scales()).prop_map(|(parts, of)| Advance::Back { parts, of, us: 0 }),
        1 => (0_u64..1 << 53).prop_map(|us| Advance::Back { parts: 0, of: Scale::Unit, us }),
        1 => (0_u64..1 << 51).prop_map(Advance::Us),
    ]
}
