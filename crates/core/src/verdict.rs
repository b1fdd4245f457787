//! The outcome of one charge.

use serde::{Deserialize, Serialize};

/// A `retry_after_us` that means: never, because the cost is more than the limit can ever hold.
pub const NEVER_US: u64 = u64::MAX;

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It fits.
    Allowed,
    /// It fits in the queue: whoever holds the request lets it pass after `wait_us`.
    Held {
        /// How long to hold the request.
        wait_us: u64,
    },
    /// It does not fit.
    Denied {
        /// The same charge fits after exactly this time if nothing else is charged meanwhile;
        /// [`NEVER_US`] if it never fits.
        retry_after_us: u64,
    },
}

/// The outcome of one charge, and what is left of the limit after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What became of it.
    pub outcome: Outcome,
    /// The largest cost the limit would still take now: after this charge if it was allowed, as it
    /// stands if it was denied.
    pub remaining: u64,
    /// Until the limit is untouched again if nothing more is charged. For fixed windows: until the
    /// window ends.
    pub reset_after_us: u64,
}

impl Verdict {
    /// Whether the charge fits, now or after its wait in the queue.
    #[inline]
    pub const fn allowed(&self) -> bool {
        !matches!(self.outcome, Outcome::Denied { .. })
    }

    /// When to try again, if denied; [`NEVER_US`] for never.
    pub const fn retry_after_us(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Denied { retry_after_us } => Some(retry_after_us),
            Outcome::Allowed | Outcome::Held { .. } => None,
        }
    }
}
