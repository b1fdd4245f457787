//! Permits: slots of concurrency limits that the service manages.

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

/// The most detached permits that are remembered. The slots of others are returned after their timeout.
const MAX_DETACHED: usize = 1_000_000;

/// The resolution of the `Date` header of the service.
const DATE_STEP: Duration = Duration::from_secs(1);

/// The shortest timeout that is accepted, so that slots are not renewed constantly.
const MIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The outcome of an acquisition.
#[derive(Debug)]
pub enum Acquired {
    /// The slots were acquired. They are held until the permit is dropped.
    Permit(Permit),
    /// The request was denied: all slots of a limit are taken.
    Denied(Decision),
}

impl Acquired {
    /// Returns the permit, or `None` if the request was denied.
    pub fn permit(self) -> Option<Permit> {
        match self {
            Self::Permit(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }
}

/// Holds slots of one or more concurrency limits. Dropping the permit returns them in the background. If the process
/// dies first, or there is no tokio runtime, they are returned after the limit's timeout.
#[must_use = "dropping a permit returns its slots"]
pub struct Permit {
    client: Client,
    slots: Option<Slots>,
}

/// The ID of a permit that was detached from its guard; see [`Permit::detach`]. It is valid for the client that
/// created it and its clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermitId(u64);

/// A permit that was detached from its guard.
pub(crate) type DetachedPermit = Arc<Slots>;

/// Where the slots of a permit are held.
pub(crate) enum Slots {
    Service(ServicePermit),
    /// In the limiter in this process, because the service did not respond. Boxed, because it is much larger.
    Local(Box<tidegate::Permit>),
}

/// A permit of the service.
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
    /// Takes a slot of each concurrency limit of the request, or none if one of them is full. Dropping the permit
    /// returns the slots.
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

    /// Restarts the timeout of a detached permit's slots. Returns false if a slot has already been returned.
    pub async fn renew(&self, permit: PermitId) -> bool {
        let found = self.0.detached.lock().get(&permit.0).cloned();
        match found.as_deref() {
            Some(slots) => self.0.renew(slots).await,
            None => false,
        }
    }

    /// Returns the slots of a detached permit. The result is false if they were returned already, or if the service
    /// could not be reached; then they are returned after their timeout.
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
    /// Acquires a permit from the service, or returns its denial.
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

    /// Renews the slots, and returns whether they are still held. If the service does not respond, they count as
    /// held.
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

    /// Restarts the timeout, for work that takes longer than it. Returns false if a slot has already been returned,
    /// so that another request may hold it. If the service does not respond, the slots count as held.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    pub async fn renew(&self) -> bool {
        match &self.slots {
            Some(slots) => self.client.0.renew(slots).await,
            None => true,
        }
    }

    /// Releases the guard without returning the slots, so that another part of this process can hold them. They are
    /// returned when [`Client::release`] is called with the returned ID, or after the timeout.
    #[must_use = "without its ID the slots of a detached permit are returned only after the timeout"]
    pub fn detach(mut self) -> PermitId {
        let id = self.client.0.detachments.fetch_add(1, Relaxed);
        let mut detached = self.client.0.detached.lock();
        match self.slots.take() {
            Some(slots) if detached.len() < MAX_DETACHED => {
                detached.insert(id, Arc::new(slots));
            }
            // Its ID is not kept, so the slots are returned by their timeout and not now.
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
        // A permit without a timeout holds no slots.
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

/// Returns how long slots are held. Uses only the clock of the service, because the local clock may be wrong. The
/// `Date` header has whole seconds, so up to one second of the time may have passed already.
fn timeout(expires_at: &str, date: Option<&HeaderValue>) -> Duration {
    let stated = || {
        let date = rfc2822::parse(date?.to_str().ok()?).ok()?.timestamp();
        let expires_at: Timestamp = expires_at.parse().ok()?;
        Duration::try_from(expires_at.duration_since(date)).ok()
    };
    let stated = stated().unwrap_or_default();
    stated.saturating_sub(DATE_STEP).max(stated / 3).max(MIN_TIMEOUT)
}
