//! `tidegate.v1.Reservations`: estimates that are charged now and put right later.

use std::time::Duration;

use prost_types::Timestamp;
use tidegate::{
    Decision, InlineError, InlineLimits, LimitStatus, Micros, Request, Reservation, ReserveError, Reserved,
    Settled,
};
use tonic::{Response, Status};

use super::permits::{OwnedEntry, borrowed, entries_of};
use super::rate_limit::RateLimit;
use crate::bounds::{Refusal, lifetime};
use crate::http::GONE;
use crate::inline::{self, Written};
pub use crate::protocols::tidegate_v1 as pb;
use crate::trace;

/// Answers reserve and settle.
pub struct ReservationService {
    /// Has the limiter, the bounds and what is counted.
    pub rate_limit: RateLimit,
}

#[tonic::async_trait]
impl pb::reservations_server::Reservations for ReservationService {
    async fn reserve(
        &self,
        request: tonic::Request<pb::ReserveRequest>,
    ) -> Result<Response<pb::ReserveResponse>, Status> {
        let RateLimit { limiter, metrics, denials, .. } = &self.rate_limit;
        let asked = request.into_inner();
        let (lasts, entries) = self.check(&asked).inspect_err(|_| metrics.refused.add(1))?;
        let request = self.requested(&asked, &entries).inspect_err(|_| metrics.refused.add(1))?;
        let reserved = limiter.reserve(&request, lasts).await.map_err(|error| {
            metrics.refused.add(1);
            metrics.reservations.failed.add(1);
            match error {
                ReserveError::TooLarge { .. } => Status::invalid_argument(error.to_string()),
                // Whoever filled it is refused; the service is well.
                ReserveError::FullOfHolder { .. } | ReserveError::FullOfDomain { .. } => {
                    Status::resource_exhausted(error.to_string())
                }
                _ => Status::unavailable(error.to_string()),
            }
        })?;
        let answer = match reserved {
            Reserved::Reservation(Reservation { id, expires_at, decision }) => {
                metrics.reservations.reserved.add(1);
                decision.count(&request);
                trace::decided(&request, &decision);
                let (id, expires_at) = (id.to_string(), Some(moment(expires_at)));
                pb::ReserveResponse { id, expires_at, ..answer(&decision) }
            }
            Reserved::Denied(decision) => {
                metrics.reservations.denied.add(1);
                decision.count(&request);
                trace::decided(&request, &decision);
                denials.note(limiter, &request, &decision);
                answer(&decision)
            }
        };
        Ok(Response::new(answer))
    }

    async fn settle(
        &self,
        request: tonic::Request<pb::SettleRequest>,
    ) -> Result<Response<pb::SettleResponse>, Status> {
        let RateLimit { limiter, bounds, metrics, .. } = &self.rate_limit;
        let pb::SettleRequest { id, cost } = request.into_inner();
        let refused = |refusal: Refusal| Status::invalid_argument(refusal.to_string());
        bounds.cost(cost).map_err(refused)?;
        let settled = limiter.settle(&id, cost).await.map_err(|error| {
            metrics.reservations.failed.add(1);
            Status::unavailable(error.to_string())
        })?;
        let Some(Settled { estimate, cost, decision }) = settled else {
            metrics.reservations.gone.add(1);
            return Err(Status::not_found(GONE));
        };
        metrics.reservations.settled.add(1);
        Ok(Response::new(pb::SettleResponse { estimate, cost, limits: limits(&decision) }))
    }
}

impl ReservationService {
    /// How long the reservation lasts, and the entries of each descriptor, if the request is within bounds.
    fn check<'a>(
        &self,
        asked: &'a pb::ReserveRequest,
    ) -> Result<(Duration, Vec<Vec<OwnedEntry<'a>>>), Status> {
        if !self.rate_limit.limiter.has_rules() {
            return Err(Status::failed_precondition("no rate limit configuration loaded"));
        }
        self.check_bounds(asked).map_err(|refusal| Status::invalid_argument(refusal.to_string()))
    }

    fn check_bounds<'a>(
        &self,
        asked: &'a pb::ReserveRequest,
    ) -> Result<(Duration, Vec<Vec<OwnedEntry<'a>>>), Refusal> {
        let bounds = &self.rate_limit.bounds;
        if asked.domain.is_empty() {
            return Err(Refusal::Empty { what: "the domain" });
        }
        if asked.descriptors.is_empty() {
            return Err(Refusal::Empty { what: "the descriptors" });
        }
        bounds.domain(&asked.domain)?;
        bounds.descriptors(asked.descriptors.len())?;
        bounds.cost(asked.cost.unwrap_or(0))?;
        let descriptor = |descriptor: &'a pb::EstimatedDescriptor| {
            bounds.cost(descriptor.cost.unwrap_or(0))?;
            entries_of(&descriptor.entries, bounds)
        };
        let entries = asked.descriptors.iter().map(descriptor).collect::<Result<_, _>>()?;
        Ok((lifetime(asked.ttl_ms)?, entries))
    }

    /// The request as the engine takes it.
    fn requested<'a>(
        &self,
        asked: &'a pb::ReserveRequest,
        entries: &'a [Vec<OwnedEntry<'a>>],
    ) -> Result<Request<'a>, Status> {
        let mut request: Option<Request<'a>> = None;
        for (index, (descriptor, entries)) in asked.descriptors.iter().zip(entries).enumerate() {
            let entries = borrowed(entries);
            let scope = entries.first().copied().unwrap_or_default();
            let mut next = match request {
                None => Request::new(&asked.domain, entries),
                Some(request) => request.and(entries),
            };
            if let Some(cost) = descriptor.cost {
                next = next.descriptor_cost(cost);
            }
            if !descriptor.limits.is_empty() {
                let cost = descriptor.cost.or(asked.cost).unwrap_or(1);
                let limits = self.brought((&asked.domain, scope), index, &descriptor.limits, cost)?;
                next = next.limits(&limits);
            }
            request = Some(next);
        }
        Ok(request.unwrap_or_else(|| Request::new(&asked.domain, [])).cost(asked.cost.unwrap_or(1)))
    }

    /// The limits that a descriptor brings along. They count towards the share of its first entry.
    fn brought(
        &self,
        (domain, scope): (&str, (&str, &str)),
        index: usize,
        limits: &[pb::InlineLimit],
        cost: u64,
    ) -> Result<InlineLimits, Status> {
        let RateLimit { limiter, bounds, .. } = &self.rate_limit;
        let specs = inline::read(limits.iter().map(written), bounds)
            .map_err(|reason| Status::invalid_argument(format!("descriptors[{index}]: {reason}")))?;
        limiter.inline_limits_of(domain, &specs, scope, cost).map_err(|error| match error {
            InlineError::NotAllowed { .. } | InlineError::TooMany { .. } => {
                Status::permission_denied(error.to_string())
            }
            InlineError::Invalid { .. } => {
                Status::invalid_argument(format!("descriptors[{index}].limits: {error}"))
            }
        })
    }
}

fn written(limit: &pb::InlineLimit) -> Written<'_> {
    Written {
        name: limit.name.as_deref(),
        requests: limit.requests,
        per: &limit.per,
        algorithm: limit.algorithm.as_deref(),
        burst: limit.burst,
    }
}

/// What limits said, without the reservation.
fn answer(decision: &Decision) -> pb::ReserveResponse {
    let decided_by =
        decision.decided_by().map(|by| pb::LimitName { rule: by.rule.to_owned(), name: by.name.to_owned() });
    pb::ReserveResponse {
        id: String::new(),
        expires_at: None,
        allowed: decision.allowed(),
        decided_by,
        source: decision.source().name().to_owned(),
        limits: limits(decision),
        retry_after: decision.retry_after().and_then(finite),
    }
}

fn limits(decision: &Decision) -> Vec<pb::LimitStatus> {
    let limit = |status: LimitStatus<'_>| pb::LimitStatus {
        rule: status.rule.to_owned(),
        name: status.name.to_owned(),
        limit: status.limit.requests(),
        remaining: status.remaining,
        reset_after: finite(status.reset_after),
        retry_after: status.retry_after.and_then(finite),
        shadow: status.shadow,
    };
    decision.limits().map(limit).collect()
}

/// A length of time, unless it never ends.
fn finite(time: Duration) -> Option<prost_types::Duration> {
    Some(time)
        .filter(|time| *time < Duration::MAX)
        .and_then(|time| prost_types::Duration::try_from(time).ok())
}

fn moment(at: Micros) -> Timestamp {
    let (seconds, us) = (at.0 / 1_000_000, at.0 % 1_000_000);
    Timestamp { seconds: seconds.cast_signed(), nanos: us as i32 * 1_000 }
}
