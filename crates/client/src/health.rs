//! The state of the service, as the client sees it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::ClientError;

/// The state of the service as the client sees it, and counts of requests since the client was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether requests are sent to the service. If not, the fallback decides until the service responds again.
    pub available: bool,
    /// Requests that the service decided.
    pub answered: u64,
    /// Requests that the service rejected because of a mistake in the application. The reasons are in the log.
    pub refused: u64,
    /// Requests that got no valid response within the deadline.
    pub failed: u64,
    /// Requests that were not sent because the service had failed recently.
    pub skipped: u64,
    /// HTTP requests that were sent for checks.
    pub batches: u64,
}

/// The counters behind [`Health`].
#[derive(Default)]
pub(crate) struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    batches: AtomicU64,
}

impl Counts {
    pub(crate) fn count_batch(&self) {
        self.batches.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_answer(&self) {
        self.answered.fetch_add(1, Relaxed);
    }

    /// Counts a request that the service did not decide, and logs why.
    pub(crate) fn count_failure(&self, error: &ClientError) {
        let counter = match error {
            ClientError::Away => &self.skipped,
            ClientError::Rejected { .. } => &self.refused,
            _ => &self.failed,
        };
        let before = counter.fetch_add(1, Relaxed);
        match error {
            // A mistake in the application repeats with every request, so only some occurrences are logged.
            ClientError::Rejected { .. } if before.is_power_of_two() || before == 0 => {
                tracing::error!(%error, refused = before + 1, "decided without the service");
            }
            _ => tracing::debug!(%error, "decided without the service"),
        }
    }

    pub(crate) fn health(&self, available: bool) -> Health {
        Health {
            available,
            answered: self.answered.load(Relaxed),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            batches: self.batches.load(Relaxed),
        }
    }
}
