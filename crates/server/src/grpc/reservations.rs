//! `tidegate.v1.Reservations`: estimated costs that are charged at once and corrected later.

use tidegate::{
    Decision, InlineError, InlineLimits, LimitStatus, Request, Reservation, ReserveError, Reserved, Settled,
};
use tonic::Status;

use super::tidegate_v1::{CountedEntry, TidegateV1, borrowed, finite, pb};
use crate::bounds::lifetime;
use crate::decider::NO_RESERVATION;
use crate::inline::{self, InlineLimit};
use crate::protocols::timestamp;
use crate::request_id::RequestId;

impl TidegateV1 {
    pub(super) async fn reserve(
        &self,
        message: pb::ReserveRequest,
        id: RequestId<'_>,
    ) -> Result<pb::ReserveResponse, Status> {
        let descriptors = message.descriptors.iter().map(|descriptor| &descriptor.entries);
        let entries = self.entries(&message.domain, descriptors)?;
        for cost in message.descriptors.iter().map(|descriptor| descriptor.cost).chain([message.cost]) {
            self.bounds.cost(cost.unwrap_or(0))?;
        }
        let lifetime = lifetime(message.ttl_ms)?;
        let request = self.request(&message, &entries)?;
        match self.decider.reserve(&request, lifetime, id).await {
            Ok(Reserved::Reservation(Reservation { id, expires_at, decision })) => {
                let (id, expires_at) = (id.to_string(), Some(timestamp(expires_at)));
                Ok(pb::ReserveResponse { id, expires_at, ..response(&decision) })
            }
            Ok(Reserved::Denied(decision)) => Ok(response(&decision)),
            Err(error) => Err(match error {
                ReserveError::TooLarge { .. } => Status::invalid_argument(error.to_string()),
                // Only the client that holds too many reservations is rejected; the service is healthy.
                ReserveError::FullOfHolder { .. } | ReserveError::FullOfDomain { .. } => {
                    Status::resource_exhausted(error.to_string())
                }
                _ => Status::unavailable(error.to_string()),
            }),
        }
    }

    pub(super) async fn settle(&self, message: pb::SettleRequest) -> Result<pb::SettleResponse, Status> {
        self.bounds.cost(message.cost)?;
        let settled = self.decider.settle(&message.id, message.cost).await;
        let settled = settled.map_err(|error| Status::unavailable(error.to_string()))?;
        let Some(Settled { estimate, cost, decision }) = settled else {
            return Err(Status::not_found(NO_RESERVATION));
        };
        Ok(pb::SettleResponse { estimate, cost, limits: limits(&decision) })
    }

    /// Builds the request that the engine decides.
    fn request<'a>(
        &self,
        message: &'a pb::ReserveRequest,
        entries: &'a [Vec<CountedEntry<'a>>],
    ) -> Result<Request<'a>, Status> {
        let mut request: Option<Request<'a>> = None;
        for (index, (descriptor, entries)) in message.descriptors.iter().zip(entries).enumerate() {
            let entries = borrowed(entries);
            let scope = entries.first().copied().unwrap_or_default();
            let mut next = match request {
                None => Request::new(&message.domain, entries),
                Some(request) => request.and(entries),
            };
            if let Some(cost) = descriptor.cost {
                next = next.descriptor_cost(cost);
            }
            if !descriptor.limits.is_empty() {
                let cost = descriptor.cost.or(message.cost).unwrap_or(1);
                next =
                    next.limits(&self.limits((&message.domain, scope), index, &descriptor.limits, cost)?);
            }
            request = Some(next);
        }
        Ok(request.unwrap_or_else(|| Request::new(&message.domain, [])).cost(message.cost.unwrap_or(1)))
    }

    /// Returns the limits that the request itself gives a descriptor. They count towards the share of the
    /// descriptor's first entry.
    fn limits(
        &self,
        (domain, scope): (&str, (&str, &str)),
        index: usize,
        limits: &[pb::InlineLimit],
        cost: u64,
    ) -> Result<InlineLimits, Status> {
        let specs = inline::read(limits.iter().map(inline_limit), &self.bounds)
            .map_err(|reason| Status::invalid_argument(format!("descriptors[{index}]: {reason}")))?;
        let limits = self.decider.limiter().inline_limits_of(domain, &specs, scope, cost);
        limits.map_err(|error| match error {
            InlineError::NotAllowed { .. } | InlineError::TooMany { .. } => {
                Status::permission_denied(error.to_string())
            }
            InlineError::Invalid { .. } => {
                Status::invalid_argument(format!("descriptors[{index}].limits: {error}"))
            }
        })
    }
}

fn inline_limit(limit: &pb::InlineLimit) -> InlineLimit<'_> {
    InlineLimit {
        name: limit.name.as_deref(),
        requests: limit.requests,
        per: &limit.per,
        algorithm: limit.algorithm.as_deref(),
        burst: limit.burst,
    }
}

/// Renders a decision, without the reservation.
fn response(decision: &Decision) -> pb::ReserveResponse {
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
