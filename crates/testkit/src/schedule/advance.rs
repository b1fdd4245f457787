//! How much time passes, relative to the limit.

use proptest::prelude::*;
use tidegate_core::{Algorithm, Limit, Micros, Window};

/// Time that passes before a step.
#[derive(Clone, Copy, Debug)]
pub enum Advance {
    /// So many microseconds.
    Us(u64),
    /// A multiple of one of the limit's own lengths.
    Sixteenths {
        /// How many sixteenths.
        parts: u64,
        /// Of what.
        of: Scale,
    },
    /// To the next seam of the limit's windows, give or take a microsecond.
    ToEdge {
        /// The microsecond.
        plus: i64,
    },
    /// To where the last denial said to try again, give or take a microsecond.
    ToRetry {
        /// The microsecond.
        plus: i64,
    },
    /// The clock steps back by so many sixteenths of a window, and microseconds.
    Back {
        /// Sixteenths of the limit's window.
        parts: u64,
        /// Of what.
        of: Scale,
        /// Microseconds on top.
        us: u64,
    },
}

/// The lengths of time a limit has.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// The window.
    Period,
    /// How long a full limit takes to be untouched again.
    Drain,
    /// The time one unit takes at a steady rate.
    Unit,
}

/// Tests stay below 2^53 us, the year 2255.
const LATEST_US: u64 = 1 << 53;

impl Scale {
    /// The length in microseconds, at least 1.
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
    /// The time after it, when it was `now` and the last denial said to try again at `retry_at`.
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

/// Time that goes on: not at all, hardly, to the edges, by parts of a window and by many windows.
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

/// A clock that jumps: by a microsecond, by parts of a window, by whole windows, to the epoch and
/// far ahead.
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
