//! Costs that are known later: reserving an estimate, and settling it.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::ask::{Costs, write};
use super::decide::decision;
use super::permits::read;
use super::{RemoteError, Service};
use crate::decide::Intent;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::request::Request;

/// What became of a reservation.
#[derive(Debug)]
pub enum RemoteReserved {
    /// The estimate is charged, to be settled with [`Limiter::settle_remote`].
    Reservation(RemoteReservation),
    /// The estimate does not fit.
    Denied(Decision),
}

/// An estimate that a service has charged.
#[derive(Debug)]
pub struct RemoteReservation {
    /// What to settle it by.
    pub id: String,
    /// Until when, as RFC 3339 has it; after that the estimate stays charged.
    pub expires_at: String,
    /// What the limits said.
    pub decision: Decision,
}

/// What became of settling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct RemoteSettled {
    /// What was charged before.
    pub estimate: u64,
    /// What is charged now.
    pub cost: u64,
}

#[derive(Deserialize)]
struct Held {
    id: String,
    expires_at: String,
}

#[derive(Serialize)]
struct Settle<'a> {
    id: &'a str,
    cost: u64,
}

impl Limiter {
    /// Charges the request's cost as an estimate in the remote service, to be settled within `ttl`. An
    /// error is no denial: the caller decides what it means.
    ///
    /// # Errors
    /// If the limiter has no remote service, or that does not answer or refuses the request.
    pub async fn reserve_remote(
        &self,
        request: &Request<'_>,
        ttl: Duration,
    ) -> Result<RemoteReserved, RemoteError> {
        let service = self.inner.remote.as_deref().ok_or(RemoteError::NoService)?;
        let reserved = service.reserve(request, ttl).await.inspect_err(|error| service.note(error))?;
        let decided = |answer| decision(self.inner.rules.load(), answer);
        Ok(match reserved {
            (None, answer) => RemoteReserved::Denied(decided(answer)),
            (Some(Held { id, expires_at }), answer) => {
                RemoteReserved::Reservation(RemoteReservation { id, expires_at, decision: decided(answer) })
            }
        })
    }

    /// Decides as if the service had not answered, for whoever has asked it in vain.
    pub fn check_without_service(&self, request: &Request<'_>) -> Decision {
        match self.inner.remote.as_deref() {
            Some(service) => self.inner.without_service(service, request, Intent::Take),
            None => self.check_now(request),
        }
    }

    /// Charges what a reservation really cost: the rest is given back, or the overrun taken. `None` if it
    /// was settled already or its time is over.
    ///
    /// # Errors
    /// As [`Limiter::reserve_remote`].
    pub async fn settle_remote(&self, id: &str, cost: u64) -> Result<Option<RemoteSettled>, RemoteError> {
        let service = self.inner.remote.as_deref().ok_or(RemoteError::NoService)?;
        service.settle(id, cost).await.inspect_err(|error| service.note(error))
    }
}

impl Service {
    async fn reserve(
        &self,
        request: &Request<'_>,
        ttl: Duration,
    ) -> Result<(Option<Held>, Answer), RemoteError> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let reply = self.ask("/v1/reserve", write(request, Costs::Asked, Some(ttl_ms))).await?;
        let held = if reply.status == StatusCode::OK { Some(read(&reply.body)?) } else { None };
        Ok((held, Answer::of_one(&reply)?))
    }

    async fn settle(&self, id: &str, cost: u64) -> Result<Option<RemoteSettled>, RemoteError> {
        let body = serde_json::to_vec(&Settle { id, cost }).unwrap_or_default();
        let reply = self.ask("/v1/settle", body).await?;
        match reply.status {
            StatusCode::OK => read(&reply.body).map(Some),
            StatusCode::GONE => Ok(None),
            _ => Err(reply.refused()),
        }
    }
}
