//! `tidegate.v1.Permits`: slots of concurrency limits.

use tidegate::{Decision, Request};
use tonic::Status;

use super::tidegate_v1::{TidegateV1, borrowed, finite, pb};
use crate::decider::SlotOutcome;
use crate::permit_token::{self, PermitToken};
use crate::protocols::timestamp;
use crate::request_id::RequestId;

impl TidegateV1 {
    pub(super) async fn acquire(
        &self,
        message: pb::AcquireRequest,
        id: RequestId<'_>,
    ) -> Result<pb::AcquireResponse, Status> {
        let descriptors = message.descriptors.iter().map(|descriptor| &descriptor.entries);
        let entries = self.entries(&message.domain, descriptors)?;
        let mut descriptors = entries.iter().map(|entries| borrowed(entries));
        let first = descriptors.next().unwrap_or_default();
        let request = descriptors.fold(Request::new(&message.domain, first), Request::and);
        Ok(match self.decider.acquire(&request, id).await {
            SlotOutcome::Held(slots) => pb::AcquireResponse {
                permit: slots.token,
                expires_at: slots.expires_at.map(timestamp),
                denial: None,
            },
            SlotOutcome::Denied(decision) => {
                pb::AcquireResponse { denial: denial(&decision), ..Default::default() }
            }
        })
    }

    pub(super) async fn renew(&self, message: pb::RenewRequest) -> Result<pb::RenewResponse, Status> {
        let permit = self.permit(&message.permit)?;
        let slots = self.decider.renew(message.permit, &permit).await;
        let renewed = slots.is_some();
        let expires_at = slots.and_then(|slots| slots.expires_at).map(timestamp);
        Ok(pb::RenewResponse { renewed, expires_at })
    }

    pub(super) async fn release(&self, message: pb::ReleaseRequest) -> Result<pb::ReleaseResponse, Status> {
        self.decider.release(&self.permit(&message.permit)?).await;
        Ok(pb::ReleaseResponse {})
    }

    fn permit(&self, token: &str) -> Result<PermitToken, Status> {
        permit_token::decode(token, &self.bounds).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

fn denial(decision: &Decision) -> Option<pb::Denial> {
    let by = decision.decided_by()?;
    let retry_after = by.retry_after.and_then(finite);
    Some(pb::Denial { rule: by.rule.to_owned(), limit: by.limit.requests(), retry_after })
}
