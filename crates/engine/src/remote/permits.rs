//! Slots of concurrency limits that a service keeps.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{DATE, HeaderValue};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::ask::{Costs, write};
use super::decide::decision;
use super::{RemoteError, RemoteFallback, Service};
use crate::decide::Intent;
use crate::limiter::Limiter;
use crate::permit::{Acquired, Lease, Permit};
use crate::request::Request;

/// Permits without a guard that are remembered; of more, the slots return after their time-outs.
const MOST_DETACHED: usize = 1_000_000;

const DATE_STEP: Duration = Duration::from_secs(1);

/// Slots are renewed no more often than makes sense, whatever the service tells of its time.
const LEAST_TIMEOUT: Duration = Duration::from_millis(500);

/// A permit by the name that the service gave it.
#[derive(Clone)]
pub(crate) struct RemotePermit {
    name: String,
    pub(crate) timeout: Option<Duration>,
}

#[derive(Deserialize)]
struct Held {
    permit: String,
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct Named<'a> {
    permit: &'a str,
}

impl Limiter {
    pub(crate) async fn acquire_remote(
        &self,
        service: &Arc<Service>,
        request: &Request<'_>,
        lease: u64,
    ) -> Acquired {
        match service.acquire(request).await {
            Ok(Ok(permit)) => Acquired::Permit(Permit::remote(&self.inner, Lease(lease), permit)),
            Ok(Err(answer)) => Acquired::Denied(decision(self.inner.rules.load(), answer)),
            Err(error) => {
                service.note(&error);
                let here = self.inner.rules.load().domain(request.domain()).is_some();
                match service.fallback {
                    RemoteFallback::Local if here => self.acquire_now(request),
                    RemoteFallback::Deny => {
                        Acquired::Denied(self.inner.without_service(service, request, Intent::Look))
                    }
                    _ => Acquired::Permit(Permit::new(&self.inner, Lease(lease), &[])),
                }
            }
        }
    }
}

impl Service {
    /// A permit, or the denial.
    async fn acquire(&self, request: &Request<'_>) -> Result<Result<RemotePermit, Answer>, RemoteError> {
        let reply = self.ask("/v1/acquire", write(request, Costs::Untold, None)).await?;
        match reply.status {
            StatusCode::OK => {
                let held: Held = read(&reply.body)?;
                let timeout = held.expires_at.map(|at| timeout(&at, reply.headers.get(DATE)));
                Ok(Ok(RemotePermit { name: held.permit, timeout }))
            }
            StatusCode::TOO_MANY_REQUESTS => Answer::of_one(&reply).map(Err),
            _ => Err(reply.refused()),
        }
    }

    /// Whether the permit is still held. A service that cannot say counts as if it were.
    pub(crate) async fn renew(&self, permit: &RemotePermit) -> bool {
        match self.ask("/v1/renew", named(permit)).await {
            Ok(reply) => reply.status != StatusCode::NOT_FOUND,
            Err(_) => true,
        }
    }

    async fn release(&self, permit: &RemotePermit) -> bool {
        let reply = self.ask("/v1/release", named(permit)).await;
        reply.is_ok_and(|reply| reply.status.is_success())
    }

    /// Returns the slots without waiting until it is done. Outside of a runtime they return after their
    /// time-out.
    pub(crate) fn release_soon(self: &Arc<Self>, permit: RemotePermit) {
        if permit.timeout.is_none() {
            return; // it holds nothing
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let service = Arc::clone(self);
            runtime.spawn(async move { service.release(&permit).await });
        }
    }

    /// Remembers a permit without a guard.
    pub(crate) fn keep_detached(&self, lease: Lease, permit: RemotePermit) {
        let mut detached = self.detached.lock();
        if detached.len() < MOST_DETACHED {
            detached.insert(lease.0, permit);
        }
    }

    /// Renews a permit without a guard, if this process made it.
    pub(crate) async fn renew_detached(&self, lease: Lease) -> Option<bool> {
        let permit = self.detached.lock().get(&lease.0).cloned()?;
        Some(self.renew(&permit).await)
    }

    /// Returns the slots of a permit without a guard, if this process made it.
    pub(crate) async fn release_detached(&self, lease: Lease) -> Option<bool> {
        let permit = self.detached.lock().remove(&lease.0)?;
        Some(self.release(&permit).await)
    }
}

fn named(permit: &RemotePermit) -> Vec<u8> {
    serde_json::to_vec(&Named { permit: &permit.name }).unwrap_or_default()
}

/// How long slots are held, by the service's clock alone: this machine's may say anything. Its date has whole
/// seconds, so up to one of them may be over.
fn timeout(expires_at: &str, date: Option<&HeaderValue>) -> Duration {
    let told = || {
        let date = rfc2822::parse(date?.to_str().ok()?).ok()?.timestamp();
        let expires_at: Timestamp = expires_at.parse().ok()?;
        Duration::try_from(expires_at.duration_since(date)).ok()
    };
    let told = told().unwrap_or_default();
    told.saturating_sub(DATE_STEP).max(told / 3).max(LEAST_TIMEOUT)
}

pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, RemoteError> {
    serde_json::from_slice(body).map_err(|error| RemoteError::Garbled(error.to_string()))
}
