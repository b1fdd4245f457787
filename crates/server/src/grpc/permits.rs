//! `tidegate.v1.Permits`: slots of concurrency limits.

use std::borrow::Cow;
use std::time::Duration;

use tidegate::{Acquired, Decision, Limiter, Micros, Request};
use tonic::{Response, Status};

use crate::bounds::{Bounds, Refusal};
use crate::metrics::Metrics;
use crate::permit_token::{self, PermitToken, TokenError};
pub use crate::protocols::tidegate_v1 as pb;
use crate::trace;

/// Answers acquire, renew and release.
pub struct PermitService {
    /// Decides.
    pub limiter: Limiter,
    /// What a client may send.
    pub bounds: Bounds,
    /// Counts refusals.
    pub metrics: Metrics,
}

#[tonic::async_trait]
impl pb::permits_server::Permits for PermitService {
    async fn acquire(
        &self,
        request: tonic::Request<pb::AcquireRequest>,
    ) -> Result<Response<pb::AcquireResponse>, Status> {
        let asked = request.into_inner();
        let entries = self.entries(&asked).inspect_err(|_| self.metrics.refused.add(1))?;
        let mut descriptors = entries.iter().map(|entries| borrowed(entries));
        let first = descriptors.next().unwrap_or_default();
        let request = descriptors.fold(Request::new(&asked.domain, first), Request::and);
        // Read before the slots are taken: they are held at least until the time told.
        let now = self.limiter.now();
        let acquired = self.limiter.acquire(&request).await;
        self.limiter.count_acquired(&request, &acquired);
        trace::acquired(&request, &acquired);
        let answer = match acquired {
            Acquired::Permit(permit) => {
                let timeout = permit.timeout();
                let token = permit_token::encode(&request, permit.detach(), timeout);
                pb::AcquireResponse { permit: token, expires_at: expiry(now, timeout), denial: None }
            }
            Acquired::Denied(decision) => {
                pb::AcquireResponse { denial: denial(&decision), ..Default::default() }
            }
        };
        Ok(Response::new(answer))
    }

    async fn renew(
        &self,
        request: tonic::Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let token = self.token(&request.get_ref().permit)?;
        // A permit that holds nothing is renewed by nothing.
        if token.timeout.is_none() {
            return Ok(Response::new(pb::RenewResponse { renewed: true, expires_at: None }));
        }
        let (now, request) = (self.limiter.now(), token.request());
        let renewed = self.limiter.renew(&request, token.lease).await;
        // The rules may have changed since it was acquired.
        let timeout = self.limiter.permit_timeout(&request).filter(|_| renewed);
        Ok(Response::new(pb::RenewResponse { renewed, expires_at: expiry(now, timeout) }))
    }

    async fn release(
        &self,
        request: tonic::Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let token = self.token(&request.get_ref().permit)?;
        self.limiter.release(&token.request(), token.lease).await;
        Ok(Response::new(pb::ReleaseResponse {}))
    }
}

impl PermitService {
    /// The entries of each descriptor, checked.
    fn entries<'a>(&self, asked: &'a pb::AcquireRequest) -> Result<Vec<Vec<OwnedEntry<'a>>>, Status> {
        if !self.limiter.has_rules() {
            return Err(Status::failed_precondition("no rate limit configuration loaded"));
        }
        let refused = |refusal: Refusal| Status::invalid_argument(refusal.to_string());
        if asked.domain.is_empty() {
            return Err(refused(Refusal::Empty { what: "the domain" }));
        }
        if asked.descriptors.is_empty() {
            return Err(refused(Refusal::Empty { what: "the descriptors" }));
        }
        self.bounds.domain(&asked.domain).map_err(refused)?;
        self.bounds.descriptors(asked.descriptors.len()).map_err(refused)?;
        let descriptor = |descriptor: &'a pb::Descriptor| entries_of(&descriptor.entries, &self.bounds);
        asked.descriptors.iter().map(descriptor).collect::<Result<_, _>>().map_err(refused)
    }

    fn token(&self, text: &str) -> Result<PermitToken, Status> {
        let refused = |error: TokenError| Status::invalid_argument(error.to_string());
        permit_token::decode(text, &self.bounds).map_err(refused)
    }
}

/// An entry whose value is in its canonical form.
pub(super) type OwnedEntry<'a> = (&'a str, Cow<'a, str>);

/// The entries of a descriptor, with the values as they are counted.
pub(super) fn entries_of<'a>(
    entries: &'a [pb::Entry],
    bounds: &Bounds,
) -> Result<Vec<OwnedEntry<'a>>, Refusal> {
    bounds.entries(entries.len())?;
    let entry = |entry: &'a pb::Entry| {
        let value = bounds.value_text(&entry.value)?;
        bounds.entry(&entry.key, if bounds.counts_odd_values() { "" } else { &value })?;
        Ok((entry.key.as_str(), value))
    };
    entries.iter().map(entry).collect()
}

/// Borrows entries in the form that a request takes.
pub(super) fn borrowed<'a>(entries: &'a [OwnedEntry<'_>]) -> Vec<(&'a str, &'a str)> {
    entries.iter().map(|(key, value)| (*key, &**value)).collect()
}

/// When slots held from `now` on return.
fn expiry(now: Micros, timeout: Option<Duration>) -> Option<prost_types::Timestamp> {
    let us = now.plus(u64::try_from(timeout?.as_micros()).unwrap_or(u64::MAX)).0;
    let (seconds, nanos) = (us / 1_000_000, us % 1_000_000 * 1_000);
    Some(prost_types::Timestamp { seconds: seconds.cast_signed(), nanos: nanos as i32 })
}

fn denial(decision: &Decision) -> Option<pb::Denial> {
    let by = decision.decided_by()?;
    let retry_after = by.retry_after.filter(|retry| *retry < Duration::MAX);
    let retry_after = retry_after.and_then(|retry| prost_types::Duration::try_from(retry).ok());
    Some(pb::Denial { rule: by.rule.to_owned(), limit: by.limit.requests(), retry_after })
}
