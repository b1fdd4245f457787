//! A point in time: microseconds since the Unix epoch.

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch. Stores handle times below 2^52, which is in the year 2112.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// Returns the microseconds from `earlier` to `self`, or 0 if `earlier` is later than `self`.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time `us` microseconds later, saturating at `u64::MAX`.
    #[inline]
    #[must_use]
    pub const fn plus(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// Returns the time `us` microseconds earlier, saturating at the epoch.
    #[inline]
    #[must_use]
    pub const fn minus(self, us: u64) -> Self {
        Self(self.0.saturating_sub(us))
    }
}
