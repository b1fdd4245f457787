//! What a request may cost, and what it did: `POST /v1/reserve`, `/v1/settle`.

use http::{Response, StatusCode};
use tidegate::{Reservation, ReserveError, Reserved, Settled};

use super::asked::{Asked, Cost, Object, Text, object};
use super::permits::moment;
use super::problem::Problem;
use super::{Body, HttpApi, response};
use crate::bounds::lifetime;
use crate::trace;

/// `{"id", "cost"}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Used<'b> {
    #[serde(borrow)]
    id: Text<'b>,
    cost: Cost,
}

/// What is answered to a name that stands for nothing, over either protocol.
pub(crate) const GONE: &str = "there is no such reservation any more: it was settled already, or it expired and the estimate stays charged; reserve anew";

impl HttpApi {
    /// The answer is that of a check; if the estimate was charged, with the name of the reservation.
    pub(super) async fn reserve(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        if !self.limiter.has_rules() {
            return Err(Problem::no_rules());
        }
        let (asked, ttl_ms) = Asked::read_reserve(message, &self.bounds)?;
        let lifetime = lifetime(ttl_ms)?;
        let request = asked.request(&self.limiter)?;
        let counts = &self.metrics.reservations;
        match self.limiter.reserve(&request, lifetime).await {
            Ok(Reserved::Reservation(Reservation { id, expires_at, decision })) => {
                counts.reserved.add(1);
                decision.count(&request);
                trace::decided(&request, &decision);
                let head = format!("{{\"id\":\"{id}\",\"expires_at\":\"{}\",", moment(expires_at));
                let mut body = Vec::with_capacity(512);
                self.renderer.body(&request, &decision, &mut body);
                // Both are objects: the first goes without its end, the second without its beginning.
                body.splice(..1, head.into_bytes());
                Ok(self.render_with(&self.renderer, &request, &decision, body))
            }
            Ok(Reserved::Denied(decision)) => {
                counts.denied.add(1);
                decision.count(&request);
                trace::decided(&request, &decision);
                self.rate_limit.denials.note(&self.limiter, &request, &decision);
                Ok(self.render(&request, &decision))
            }
            Err(error) => {
                counts.failed.add(1);
                Err(match error {
                    ReserveError::TooLarge { .. } => Problem::bad(error.to_string()),
                    // Whoever filled it is refused; the service is well.
                    ReserveError::FullOfHolder { .. } | ReserveError::FullOfDomain { .. } => {
                        Problem::new(StatusCode::FORBIDDEN, error.to_string())
                    }
                    _ => Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
                })
            }
        }
    }

    pub(super) async fn settle(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let Object(Used { id, cost: Cost(cost) }) = object(message)?;
        self.bounds.cost(cost)?;
        let counts = &self.metrics.reservations;
        match self.limiter.settle(&id.0, cost).await {
            Ok(Some(Settled { estimate, cost, decision })) => {
                counts.settled.add(1);
                let mut body = format!("{{\"estimate\":{estimate},\"cost\":{cost},\"limits\":").into_bytes();
                self.renderer.limits(&decision, &mut body);
                body.push(b'}');
                Ok(response(StatusCode::OK, "application/json", body))
            }
            Ok(None) => {
                counts.gone.add(1);
                Err(Problem::new(StatusCode::GONE, GONE))
            }
            Err(error) => {
                counts.failed.add(1);
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
            }
        }
    }
}
