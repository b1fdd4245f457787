//! The outcome of one charge.

use serde::{Deserialize, Serialize};

/// The `retry_after_us` of a charge that never fits: its cost is more than the limit can ever hold.
pub const NEVER_US: u64 = u64::MAX;

/// Whether a charge was allowed, held or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The charge fits.
    Allowed,
    /// The charge fits into the queue: the caller has to hold the request for `wait_us`.
    Held {
        /// How long to hold the request, in microseconds.
        wait_us: u64,
    },
    /// The charge does not fit, and nothing was charged.
    Denied {
        /// Microseconds until the same charge fits, if nothing else is charged in the meantime;
        /// [`NEVER_US`] if it never fits. One microsecond earlier it is still denied.
        retry_after_us: u64,
    },
}

/// The outcome of one charge, and what is left of the limit after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the charge was allowed, held or denied.
    pub outcome: Outcome,
    /// The largest cost that still fits now, after this charge if it was allowed.
    pub remaining: u64,
    /// Microseconds until the limit is unused again, if nothing more is charged. For fixed windows,
    /// microseconds until the window ends.
    pub reset_after_us: u64,
}

impl Verdict {
    /// Returns whether the charge fits, at once or after its wait in the queue.
    #[inline]
    pub const fn allowed(&self) -> bool {
        !matches!(self.outcome, Outcome::Denied { .. })
    }

    /// Returns the microseconds until a denied charge fits ([`NEVER_US`] if it never does), or `None` if
    /// the charge was not denied.
    pub const fn retry_after_us(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Denied { retry_after_us } => Some(retry_after_us),
            Outcome::Allowed | Outcome::Held { .. } => None,
        }
    }
}
