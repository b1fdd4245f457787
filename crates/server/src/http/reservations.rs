//! `POST /v1/reserve` and `/v1/settle`: an estimated cost that is charged at once and corrected later.

use http::{Response, StatusCode};
use tidegate::{Reservation, ReserveError, Reserved, Settled};

use super::check_body::{CheckBody, Object, Text, WholeNumber, object};
use super::{Body, HttpApi, response};
use crate::bounds::lifetime;
use crate::decider::NO_RESERVATION;
use crate::problem::Problem;
use crate::protocols::timestamp;
use crate::request_id::RequestId;

/// The body of a settle request: `{"id", "cost"}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SettleBody<'b> {
    #[serde(borrow)]
    id: Text<'b>,
    cost: WholeNumber,
}

impl HttpApi {
    /// Handles a reserve request. Responds like a check; if the estimate was charged, the response has the
    /// reservation ID.
    pub(super) async fn reserve(&self, message: &[u8], id: RequestId<'_>) -> Result<Response<Body>, Problem> {
        let (parsed, ttl_ms) = CheckBody::read_reserve(message, &self.bounds)?;
        let lifetime = lifetime(ttl_ms)?;
        let request = parsed.request(self.decider.limiter())?;
        match self.decider.reserve(&request, lifetime, id).await {
            Ok(Reserved::Reservation(Reservation { id, expires_at, decision })) => {
                let head = format!("{{\"id\":\"{id}\",\"expires_at\":\"{}\",", timestamp(expires_at));
                let mut body = Vec::with_capacity(512);
                self.renderer.body(&request, &decision, &mut body);
                // The members of `head` are inserted before those of the object in `body`.
                body.splice(..1, head.into_bytes());
                Ok(self.render_with(&self.renderer, &request, &decision, body))
            }
            Ok(Reserved::Denied(decision)) => Ok(self.render(&request, &decision)),
            Err(error) => Err(match error {
                ReserveError::TooLarge { .. } => Problem::bad(error.to_string()),
                // Only the client that holds too many reservations is rejected; the service is healthy.
                ReserveError::FullOfHolder { .. } | ReserveError::FullOfDomain { .. } => {
                    Problem::new(StatusCode::FORBIDDEN, error.to_string())
                }
                _ => Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            }),
        }
    }

    pub(super) async fn settle(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let Object(SettleBody { id, cost: WholeNumber(cost) }) = object(message)?;
        self.bounds.cost(cost)?;
        match self.decider.settle(&id.0, cost).await {
            Ok(Some(Settled { estimate, cost, decision })) => {
                let mut body = format!("{{\"estimate\":{estimate},\"cost\":{cost},\"limits\":").into_bytes();
                self.renderer.limits(&decision, &mut body);
                body.push(b'}');
                Ok(response(StatusCode::OK, "application/json", body))
            }
            Ok(None) => Err(Problem::new(StatusCode::GONE, NO_RESERVATION)),
            Err(error) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
        }
    }
}
