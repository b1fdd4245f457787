//! Slots of concurrency limits that the service keeps.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::StatusCode;
use http::header::{DATE, HeaderValue};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::{Deserialize, Serialize};
use tidegate::{Decision, Request, Source, Statement};

use crate::builder::Fallback;
use crate::client::{Client, Inner};
use crate::error::ClientError;
use crate::local::unseen;
use crate::request_body::{self, json};
use crate::response;

/// Permits without a guard that are remembered at most. The slots of others return after their time-outs.
const MAX_DETACHED: usize = 1_000_000;

/// Precision of the service's `Date` header.
const DATE_STEP: Duration = Duration::from_secs(1);

/// The shortest time-out that is believed, so that slots are not renewed all the time.
const MIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The outcome of an acquisition.
#[derive(Debug)]
pub enum Acquired {
    /// The slots, until the permit is dropped.
    Permit(Permit),
    /// The denial: all slots are taken.
    Denied(Decision),
}

impl Acquired {
    /// Returns the permit, or `None` if it was denied.
    pub fn permit(self) -> Option<Permit> {
        match self {
            Self::Permit(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }
}

/// Slots of one or more concurrency limits. Dropping the permit returns them, in the background; if the process
/// dies first, or there is no tokio runtime to do it, they return after the limit's time-out.
#[must_use = "dropping a permit returns its slots"]
pub struct Permit {
    client: Client,
    slots: Option<Slots>,
}

/// ID of a permit that no guard looks after: see [`Permit::detach`]. It is known to the client that made it, and
/// to its clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermitId(u64);

/// A permit that no guard looks after.
pub(crate) type DetachedPermit = Arc<Slots>;

/// Who keeps the slots of a permit.
pub(crate) enum Slots {
    Service(ServicePermit),
    /// The limiter in this process, because the service did not respond. Boxed, because it is much larger.
    Local(Box<tidegate::Permit>),
}

/// A permit as the service names it.
#[derive(Clone)]
pub(crate) struct ServicePermit {
    name: String,
    timeout: Option<Duration>,
}

#[derive(Deserialize)]
struct AcquireResponse {
    permit: String,
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct PermitBody<'a> {
    permit: &'a str,
}

impl Client {
    /// Takes a slot of each concurrency limit the request falls under, or none. The permit returns them when it
    /// is dropped.
    pub async fn acquire(&self, request: &Request<'_>) -> Acquired {
        let permit = |slots| Acquired::Permit(Permit { client: self.clone(), slots });
        let error = match self.0.acquire(request).await {
            Ok(Ok(held)) => return permit(Some(Slots::Service(held))),
            Ok(Err(denial)) => return Acquired::Denied(Decision::stated(denial)),
            Err(error) => error,
        };
        self.0.counts.count_failure(&error);
        match self.0.fallback {
            Fallback::Deny => Acquired::Denied(unseen(Source::Deny)),
            Fallback::Local if self.0.local.has_rules(request.domain()) => {
                match self.0.local.acquire(request) {
                    tidegate::Acquired::Permit(held) => permit(Some(Slots::Local(Box::new(held)))),
                    tidegate::Acquired::Denied(decision) => Acquired::Denied(decision),
                }
            }
            Fallback::Allow | Fallback::Local => permit(None),
        }
    }

    /// Starts the time-out of a detached permit's slots anew. False if a slot has returned already.
    pub async fn renew(&self, permit: PermitId) -> bool {
        let found = self.0.detached.lock().get(&permit.0).cloned();
        match found.as_deref() {
            Some(slots) => self.0.renew(slots).await,
            None => false,
        }
    }

    /// Returns the slots of a detached permit. False if they have returned already, or the service could not be
    /// told; then they return after their time-out.
    pub async fn release(&self, permit: PermitId) -> bool {
        let found = self.0.detached.lock().remove(&permit.0);
        match found.as_deref() {
            Some(Slots::Service(held)) => self.0.release(held).await,
            // Dropping a local permit returns its slots.
            Some(Slots::Local(_)) => true,
            None => false,
        }
    }
}

impl Inner {
    /// Returns a permit, or the denial.
    async fn acquire(&self, request: &Request<'_>) -> Result<Result<ServicePermit, Statement>, ClientError> {
        let response = self.send("/v1/acquire", request_body::acquire(request)).await?;
        match response.status {
            StatusCode::OK => {
                let AcquireResponse { permit, expires_at } = serde_json::from_slice(&response.body)?;
                let timeout = expires_at.map(|at| timeout(&at, response.headers.get(DATE)));
                Ok(Ok(ServicePermit { name: permit, timeout }))
            }
            StatusCode::TOO_MANY_REQUESTS => response::decision(&response).map(Err),
            _ => Err(response.rejection()),
        }
    }

    /// Returns whether the slots are still held. A service that cannot say counts as if they were.
    async fn renew(&self, slots: &Slots) -> bool {
        match slots {
            Slots::Local(permit) => permit.renew().await,
            Slots::Service(permit) => match self.send("/v1/renew", permit.body()).await {
                Ok(response) => response.status != StatusCode::NOT_FOUND,
                Err(_) => true,
            },
        }
    }

    async fn release(&self, permit: &ServicePermit) -> bool {
        let response = self.send("/v1/release", permit.body()).await;
        response.is_ok_and(|response| response.status.is_success())
    }
}

impl ServicePermit {
    fn body(&self) -> Vec<u8> {
        json(&PermitBody { permit: &self.name })
    }
}

impl Permit {
    /// Returns how long the slots are held without renewal; `None` if no concurrency limit applied.
    pub fn timeout(&self) -> Option<Duration> {
        match self.slots.as_ref()? {
            Slots::Service(permit) => permit.timeout,
            Slots::Local(permit) => permit.timeout(),
        }
    }

    /// Starts the time-out anew, for work that takes longer than it. False if a slot has returned already, and
    /// somebody else may have it. A service that cannot say counts as if the slots were held.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    pub async fn renew(&self) -> bool {
        match &self.slots {
            Some(slots) => self.client.0.renew(slots).await,
            None => true,
        }
    }

    /// Lets go of the guard without returning the slots, for a holder elsewhere in this process. They return when
    /// [`Client::release`] is called with this ID, or after the time-out.
    #[must_use = "without its ID a detached permit returns only after the time-out"]
    pub fn detach(mut self) -> PermitId {
        let id = self.client.0.detachments.fetch_add(1, Relaxed);
        let mut detached = self.client.0.detached.lock();
        match self.slots.take() {
            Some(slots) if detached.len() < MAX_DETACHED => {
                detached.insert(id, Arc::new(slots));
            }
            // Its ID is forgotten, so that the slots are returned by their time-out and not now.
            Some(Slots::Local(permit)) => _ = permit.detach(),
            Some(Slots::Service(_)) | None => {}
        }
        drop(detached);
        PermitId(id)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(Slots::Service(permit)) = self.slots.take() else { return };
        // Without a time-out it holds no slots.
        if permit.timeout.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let client = Arc::clone(&self.client.0);
            runtime.spawn(async move { client.release(&permit).await });
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("timeout", &self.timeout()).finish_non_exhaustive()
    }
}

/// How long slots are held, by the service's clock alone: this machine's may be wrong. The service's date has
/// whole seconds, so up to one of them may be over.
fn timeout(expires_at: &str, date: Option<&HeaderValue>) -> Duration {
    let stated = || {
        let date = rfc2822::parse(date?.to_str().ok()?).ok()?.timestamp();
        let expires_at: Timestamp = expires_at.parse().ok()?;
        Duration::try_from(expires_at.duration_since(date)).ok()
    };
    let stated = stated().unwrap_or_default();
    stated.saturating_sub(DATE_STEP).max(stated / 3).max(MIN_TIMEOUT)
}
