//! Asking a service over HTTP instead of deciding here.
//!
//! Checks that are made at the same time go in one batch. Nothing waits for longer than the deadline, and
//! nothing at all while the service is known to be away: then the fallback decides.
//!
//! - `settings`: what an application says about the service
//! - `ask`, `answer`: the JSON of both ways
//! - `connect`, `tls`: connections, and whom to trust; `post`: one exchange over HTTP
//! - `gather`: checks made at the same time go together
//! - `breaker`: when to try again
//! - `decide`: a decision from an answer, or without one
//! - `refunds`: giving back
//! - `permits`, `reservations`: slots, and costs that are known later

pub(crate) mod answer;
pub(crate) mod ask;
mod breaker;
mod connect;
mod decide;
mod gather;
pub(crate) mod permits;
mod post;
mod refunds;
mod reservations;
mod settings;
mod tls;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

pub use settings::{Remote, RemoteFallback, SettingsError};

use crate::inline::InlineLimits;
use crate::limiter::Limiter;
use breaker::Breaker;
use gather::Gathering;
use permits::RemotePermit;
use post::Http;
use reservations::AllMadeHere;

/// The service that is asked.
pub(crate) struct Service {
    http: Http,
    deadline: Duration,
    fallback: RemoteFallback,
    /// What holds each descriptor without limits of its own while the service is away.
    local_limits: Option<InlineLimits>,
    breaker: Mutex<Breaker>,
    gathering: Mutex<Gathering>,
    /// Permits without a guard, by their leases.
    detached: Mutex<HashMap<u64, RemotePermit>>,
    /// Estimates that were made while the service was away.
    made_here: Mutex<AllMadeHere>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    batches: AtomicU64,
}

/// Why a service did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemoteError {
    /// It was not asked: it has failed just now, and is tried again by one request after another.
    #[error("the service is away; it is asked again in a moment")]
    Away,
    /// No connection, or one that broke.
    #[error("the service cannot be reached: {0}; check its address and whether it runs")]
    Unreachable(String),
    /// Nothing came within the deadline.
    #[error("the service did not answer within the deadline of {0:?}")]
    TooLate(Duration),
    /// It says that something is wrong with itself.
    #[error("the service answered {status}: {detail}")]
    Unwell {
        /// 500 and above.
        status: u16,
        /// What it says.
        detail: String,
    },
    /// It says that something is wrong with the request.
    #[error("the service refuses the request ({status}): {detail}")]
    Refused {
        /// 400 and above.
        status: u16,
        /// What to do about it.
        detail: String,
    },
    /// The answer makes no sense.
    #[error("the service's answer is none: {0}; is it Tidegate that is asked?")]
    Garbled(String),
}

/// How well a service does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteHealth {
    /// Whether it is asked; if not, the fallback decides until it is back.
    pub available: bool,
    /// Requests that it answered.
    pub answered: u64,
    /// Requests that it refused, which is the application's mistake; the log has the reasons.
    pub refused: u64,
    /// Requests without an answer in time.
    pub failed: u64,
    /// Requests that were not sent because it was away.
    pub skipped: u64,
    /// Exchanges that the checks went in.
    pub batches: u64,
}

impl Service {
    /// Counts what became of a check, and tells the log what nobody else will.
    fn note(&self, error: &RemoteError) {
        let counter = match error {
            RemoteError::Away => &self.counts.skipped,
            RemoteError::Refused { .. } => &self.counts.refused,
            _ => &self.counts.failed,
        };
        let before = counter.fetch_add(1, Relaxed);
        match error {
            // A mistake in the application: each request would tell of it.
            RemoteError::Refused { .. } if before.is_power_of_two() || before == 0 => {
                tracing::error!(%error, refused = before + 1, "decided without the service");
            }
            _ => tracing::debug!(%error, "decided without the service"),
        }
    }

    fn health(&self) -> RemoteHealth {
        let Counts { answered, refused, failed, skipped, batches } = &self.counts;
        RemoteHealth {
            available: self.breaker.lock().is_closed(),
            answered: answered.load(Relaxed),
            refused: refused.load(Relaxed),
            failed: failed.load(Relaxed),
            skipped: skipped.load(Relaxed),
            batches: batches.load(Relaxed),
        }
    }
}

impl Limiter {
    /// How the remote service does; `None` if there is none.
    pub fn remote_health(&self) -> Option<RemoteHealth> {
        self.inner.remote.as_deref().map(Service::health)
    }

    /// Whether a remote service is asked.
    pub fn is_remote(&self) -> bool {
        self.inner.remote.is_some()
    }
}
