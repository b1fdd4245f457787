//! Costs that are known later: reserving an estimate in the service, and settling it there.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate_core::Micros;

use super::answer::{Answer, Said, SaidLimit};
use super::ask::{Costs, write};
use super::decide::decision;
use super::permits::read;
use super::{RemoteError, RemoteFallback, Service};
use crate::decide::Intent;
use crate::decision::Source;
use crate::limiter::Inner;
use crate::request::Request;
use crate::reservation::{Reservation, ReservationId, ReserveError, Reserved, Settled};

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

#[derive(Deserialize)]
struct Done {
    estimate: u64,
    cost: u64,
    limits: Vec<SaidLimit>,
}

impl Inner {
    /// Reserves in the service; while that does not answer, the fallback decides.
    pub(crate) async fn reserve_remote(
        &self,
        service: &Service,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<Reserved, ReserveError> {
        match service.reserve(request, lifetime).await {
            Ok((None, answer)) => Ok(Reserved::Denied(decision(self.rules.load(), answer))),
            Ok((Some((id, expires_at)), answer)) => {
                let decision = decision(self.rules.load(), answer);
                Ok(Reserved::Reservation(Reservation { id, expires_at, decision }))
            }
            Err(error) => {
                service.note(&error);
                self.reserve_without_service(service, request, lifetime)
            }
        }
    }

    /// By rules of its own the limiter reserves as it does without a service. Whatever else lets the estimate
    /// pass has nothing to settle.
    fn reserve_without_service(
        &self,
        service: &Service,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<Reserved, ReserveError> {
        let here = self.rules.load().domain(request.domain()).is_some();
        if here && service.fallback == RemoteFallback::Local {
            let mut reserved = self.reserve_here(request, lifetime)?;
            let (Reserved::Reservation(Reservation { decision, .. }) | Reserved::Denied(decision)) =
                &mut reserved;
            decision.source = Source::Local;
            return Ok(reserved);
        }
        let decision = self.without_service(service, request, Intent::Take);
        if !decision.allowed() {
            return Ok(Reserved::Denied(decision));
        }
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let lifetime_us = u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX);
        let expires_at = self.store.now().plus(lifetime_us);
        Ok(Reserved::Reservation(Reservation { id, expires_at, decision }))
    }

    /// Settles in the service.
    pub(crate) async fn settle_remote(
        &self,
        service: &Service,
        id: &str,
        cost: u64,
    ) -> Result<Option<Settled>, RemoteError> {
        let done = service.settle(id, cost).await.inspect_err(|error| service.note(error))?;
        Ok(done.map(|Done { estimate, cost, limits }| {
            let mut decision = decision(self.rules.load(), Answer::of_limits(Said::of_limits(limits)));
            decision.under.brought.forget_rendered();
            Settled { estimate, cost, decision }
        }))
    }
}

impl Service {
    async fn reserve(
        &self,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<(Option<(ReservationId, Micros)>, Answer), RemoteError> {
        let ttl_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let reply = self.ask("/v1/reserve", write(request, Costs::Asked, Some(ttl_ms))).await?;
        let answer = Answer::of_one(&reply)?;
        if reply.status != StatusCode::OK {
            return Ok((None, answer));
        }
        let Held { id, expires_at } = read(&reply.body)?;
        let garbled = |what: &str| RemoteError::Garbled(format!("{what:?} in the answer to a reservation"));
        let known = ReservationId::parse(&id).ok_or_else(|| garbled(&id))?;
        let at: Timestamp = expires_at.parse().map_err(|_| garbled(&expires_at))?;
        let at = Micros(u64::try_from(at.as_microsecond()).unwrap_or(0));
        Ok((Some((known, at)), answer))
    }

    async fn settle(&self, id: &str, cost: u64) -> Result<Option<Done>, RemoteError> {
        let body = serde_json::to_vec(&Settle { id, cost }).unwrap_or_default();
        let reply = self.ask("/v1/settle", body).await?;
        match reply.status {
            StatusCode::OK => read(&reply.body).map(Some),
            StatusCode::GONE => Ok(None),
            _ => Err(reply.refused()),
        }
    }
}
