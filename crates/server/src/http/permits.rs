//! Slots of concurrency limits: `POST /v1/acquire`, `/v1/renew`, `/v1/release`.

use std::time::Duration;

use http::{Response, StatusCode};
use prost_types::Timestamp;
use tidegate::{Acquired, Micros};

use super::asked::{Asked, Object, Text, object};
use super::problem::Problem;
use super::{Body, HttpApi, response};
use crate::permit_token::{self, PermitToken};
use crate::trace;

/// `{"permit"}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Held<'b> {
    #[serde(borrow)]
    permit: Text<'b>,
}

impl HttpApi {
    /// A request that falls under no concurrency limit gets a permit that holds nothing.
    pub(super) async fn acquire(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        if !self.limiter.has_rules() {
            return Err(Problem::no_rules());
        }
        let asked = Asked::read(message, &self.bounds)?;
        asked.takes_one()?;
        let request = asked.request(&self.limiter)?;
        // Read before the slots are taken: they are held at least until the time told.
        let now = self.limiter.now();
        let acquired = self.limiter.acquire(&request).await;
        self.limiter.count_acquired(&request, &acquired);
        trace::acquired(&request, &acquired);
        match acquired {
            Acquired::Denied(decision) => Ok(self.render(&request, &decision)),
            Acquired::Permit(permit) => {
                let timeout = permit.timeout();
                let token = permit_token::encode(&request, permit.detach(), timeout);
                Ok(held(&token, now, timeout))
            }
        }
    }

    pub(super) async fn renew(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let (text, token) = self.token(message)?;
        let now = self.limiter.now();
        // Where nothing is held there is nothing to lose.
        if token.timeout.is_none() {
            return Ok(held(&text.0, now, None));
        }
        let request = token.request();
        if !self.limiter.renew(&request, token.lease).await {
            let detail =
                "the permit is not held any more: it was released, or its time-out passed; acquire a new one";
            return Err(Problem::new(StatusCode::NOT_FOUND, detail));
        }
        // The rules may have changed since it was acquired.
        Ok(held(&text.0, now, self.limiter.permit_timeout(&request)))
    }

    /// Releasing twice is no error, nor is releasing what timed out.
    pub(super) async fn release(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let (_, token) = self.token(message)?;
        self.limiter.release(&token.request(), token.lease).await;
        let mut response = Response::new(Body::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }

    fn token<'b>(&self, message: &'b [u8]) -> Result<(Text<'b>, PermitToken), Problem> {
        let Object(Held { permit }) = object(message)?;
        let token = permit_token::decode(&permit.0, &self.bounds)?;
        Ok((permit, token))
    }
}

fn held(token: &str, now: Micros, timeout: Option<Duration>) -> Response<Body> {
    let expires_at = timeout.map(|timeout| moment(now.plus(timeout.as_micros() as u64)).to_string());
    let body = serde_json::json!({ "permit": token, "expires_at": expires_at });
    response(StatusCode::OK, "application/json", body.to_string())
}

/// Prints as RFC 3339.
pub(super) fn moment(at: Micros) -> Timestamp {
    let (seconds, us) = (at.0 / 1_000_000, at.0 % 1_000_000);
    Timestamp { seconds: seconds.cast_signed(), nanos: us as i32 * 1_000 }
}
