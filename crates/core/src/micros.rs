//! A point in time: microseconds since the Unix epoch.

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch. 2^52 of them reach the year 2112, the horizon of every store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// Microseconds from `earlier` to `self`; 0 if time stepped back.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `us` later, or the end of time.
    #[inline]
    #[must_use]
    pub const fn plus(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// The point `us` earlier, or the epoch.
    #[inline]
    #[must_use]
    pub const fn minus(self, us: u64) -> Self {
        Self(self.0.saturating_sub(us))
    }
}
