//! `POST /v1/acquire`, `/v1/renew` and `/v1/release`: slots of concurrency limits.

use http::{Response, StatusCode};

use super::check_body::{CheckBody, Object, Text, object};
use super::{Body, HttpApi, response};
use crate::decider::{HeldSlots, SlotOutcome};
use crate::permit_token::{self, PermitToken};
use crate::problem::Problem;
use crate::protocols::timestamp;
use crate::request_id::RequestId;

/// The body of renew and release: `{"permit"}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PermitBody<'b> {
    #[serde(borrow)]
    permit: Text<'b>,
}

impl HttpApi {
    /// Acquires a permit. A request without a concurrency limit gets a permit that holds no slots.
    pub(super) async fn acquire(&self, message: &[u8], id: RequestId<'_>) -> Result<Response<Body>, Problem> {
        let parsed = CheckBody::read(message, &self.bounds)?;
        parsed.check_permit()?;
        let request = parsed.request(self.decider.limiter())?;
        Ok(match self.decider.acquire(&request, id).await {
            SlotOutcome::Denied(decision) => self.render(&request, &decision),
            SlotOutcome::Held(slots) => held(&slots),
        })
    }

    pub(super) async fn renew(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let (text, permit) = self.permit(message)?;
        if let Some(slots) = self.decider.renew(text.0.into_owned(), &permit).await {
            return Ok(held(&slots));
        }
        let detail =
            "the permit is not held any more: it was released, or its time-out passed; acquire a new one";
        Err(Problem::new(StatusCode::NOT_FOUND, detail))
    }

    /// Releases a permit. Releasing twice is not an error, nor is releasing slots that timed out.
    pub(super) async fn release(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let (_, permit) = self.permit(message)?;
        self.decider.release(&permit).await;
        let mut response = Response::new(Body::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }

    fn permit<'b>(&self, message: &'b [u8]) -> Result<(Text<'b>, PermitToken), Problem> {
        let Object(PermitBody { permit: token }) = object(message)?;
        let permit = permit_token::decode(&token.0, &self.bounds)?;
        Ok((token, permit))
    }
}

fn held(slots: &HeldSlots) -> Response<Body> {
    let expires_at = slots.expires_at.map(|at| timestamp(at).to_string());
    let body = serde_json::json!({ "permit": slots.token, "expires_at": expires_at });
    response(StatusCode::OK, "application/json", body.to_string())
}
