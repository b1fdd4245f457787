//! Reservations: an estimated cost is charged in the service, and settled there later.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate::{
    Decision, Micros, Request, Reservation, ReservationId, ReserveError, Reserved, Settled, Source, spelling,
};

use crate::builder::Fallback;
use crate::client::{Client, Inner};
use crate::error::ClientError;
use crate::local::unseen;
use crate::request_body::{self, json};
use crate::response::{self, LimitBody};

#[derive(Deserialize)]
struct ReserveResponse {
    id: String,
    expires_at: String,
}

#[derive(Serialize)]
struct SettleBody<'a> {
    id: &'a str,
    cost: u64,
}

#[derive(Deserialize)]
struct SettleResponse {
    estimate: u64,
    cost: u64,
    limits: Vec<LimitBody>,
}

impl Client {
    /// Charges the estimated cost of a request, to be settled with [`Client::settle`] when the real cost is known.
    /// All of its limits are charged, or none of them if one denies. After `lifetime` the estimate stays charged.
    ///
    /// # Errors
    /// Returns an error if the service does not respond and this process already holds too many reservations that are
    /// not settled. Then nothing was charged.
    pub async fn reserve(&self, request: &Request<'_>, lifetime: Duration) -> Result<Reserved, ReserveError> {
        match self.0.reserve(request, lifetime).await {
            Ok(reserved) => Ok(reserved),
            Err(error) => {
                self.0.counts.count_failure(&error);
                match self.0.fallback {
                    Fallback::Local => self.0.local.reserve(request, lifetime),
                    Fallback::Allow => self.0.local.reserve_unseen(request, lifetime),
                    Fallback::Deny => Ok(Reserved::Denied(unseen(Source::Deny))),
                }
            }
        }
    }

    /// Replaces the estimate of a reservation by the real cost in units: gives the rest back, or charges the
    /// difference, into debt if it does not fit. Returns `None` if there is no such reservation: it was settled
    /// already, has expired, or never existed. A reservation that was made locally while the service did not respond
    /// is settled locally.
    ///
    /// # Errors
    /// Returns an error if the service does not respond, or rejects the request. The reservation may still exist.
    pub async fn settle(&self, id: &str, cost: u64) -> Result<Option<Settled>, ClientError> {
        if let Some(settled) = self.0.local.settle(id, cost) {
            return Ok(Some(settled));
        }
        let settled = self.0.settle(id, spelling::cost(cost)).await;
        settled.inspect_err(|error| self.0.counts.count_failure(error))
    }
}

impl Inner {
    async fn reserve(&self, request: &Request<'_>, lifetime: Duration) -> Result<Reserved, ClientError> {
        let ttl_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let response = self.send("/v1/reserve", request_body::reserve(request, ttl_ms)).await?;
        let decision = Decision::stated(response::decision(&response)?);
        if response.status != StatusCode::OK {
            return Ok(Reserved::Denied(decision));
        }
        let ReserveResponse { id, expires_at } = serde_json::from_slice(&response.body)?;
        let invalid = |what: &str| ClientError::InvalidResponse(format!("{what:?} of a reservation"));
        let known = ReservationId::parse(&id).ok_or_else(|| invalid(&id))?;
        let at: Timestamp = expires_at.parse().map_err(|_| invalid(&expires_at))?;
        let expires_at = Micros(u64::try_from(at.as_microsecond()).unwrap_or(0));
        Ok(Reserved::Reservation(Reservation { id: known, expires_at, decision }))
    }

    async fn settle(&self, id: &str, cost: u64) -> Result<Option<Settled>, ClientError> {
        let response = self.send("/v1/settle", json(&SettleBody { id, cost })).await?;
        match response.status {
            StatusCode::OK => {
                let SettleResponse { estimate, cost, limits } = serde_json::from_slice(&response.body)?;
                let decision = Decision::stated(response::standing(&limits)?);
                Ok(Some(Settled { estimate, cost, decision }))
            }
            StatusCode::GONE => Ok(None),
            _ => Err(response.rejection()),
        }
    }
}
