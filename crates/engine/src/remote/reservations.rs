//! Costs that are known later: reserving an estimate in the service, and settling it there.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate_core::{Key, Limit, Micros, Taken};
use tidegate_stores::{Charge, Correction};

use super::answer::{Answer, Said, SaidLimit};
use super::ask::{Costs, write};
use super::decide::{charges_locally, decided_locally, decision, unseen};
use super::permits::read;
use super::{RemoteError, RemoteFallback, Service};
use crate::decide::{Intent, conclude};
use crate::decision::{Items, Source};
use crate::inline::Brought;
use crate::limiter::Inner;
use crate::request::Request;
use crate::reservation::{Reservation, ReservationId, ReserveError, Reserved, Settled};
use crate::spelling;

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

/// So many estimates are kept at once that were made while the service was away.
const MOST_MADE_HERE: usize = 100_000;

/// Estimates that were made while the service was away.
#[derive(Default)]
pub(super) struct AllMadeHere {
    by_id: HashMap<ReservationId, MadeHere>,
    by_end: BTreeSet<(Micros, ReservationId)>,
}

/// One of them: what was charged in this process.
struct MadeHere {
    until: Micros,
    estimate: u64,
    taken: Vec<TakenHere>,
    brought: Brought,
    items: Items,
}

/// What was taken of one counter.
struct TakenHere {
    key: Key,
    limit: Limit,
    /// None where the cost is the descriptor's own.
    taken: Option<Taken>,
}

impl AllMadeHere {
    /// Whether there is a place, once those that have ended are gone.
    fn has_room(&mut self, now: Micros) -> bool {
        while let Some((_, id)) = self.by_end.first().copied().filter(|(until, _)| *until <= now) {
            self.by_end.pop_first();
            self.by_id.remove(&id);
        }
        self.by_id.len() < MOST_MADE_HERE
    }

    fn add(&mut self, id: ReservationId, made: MadeHere) {
        self.by_end.insert((made.until, id));
        self.by_id.insert(id, made);
    }

    fn take(&mut self, id: ReservationId) -> Option<MadeHere> {
        let made = self.by_id.remove(&id)?;
        self.by_end.remove(&(made.until, id));
        Some(made)
    }
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

    /// By rules of its own the limiter reserves as it does without a service. What is charged under other
    /// limits is put down beside, and so is an estimate that nothing was charged for: the service knows of
    /// neither, and is never asked to settle them.
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
        if service.fallback == RemoteFallback::Deny {
            return Ok(Reserved::Denied(self.without_service(service, request, Intent::Take)));
        }
        let lifetime_us = u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX);
        let now = self.store.now();
        let expires_at = now.plus(lifetime_us);
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let mut made_here = service.made_here.lock();
        if !made_here.has_room(now) {
            return Err(ReserveError::Full { most: MOST_MADE_HERE });
        }
        let rules = self.rules.load();
        let estimate = request.common_cost();
        let brought = match service.fallback {
            RemoteFallback::Local => service.brought_locally(request),
            _ => Brought::default(),
        };
        let (charges, mut items) = charges_locally(&rules, request, &brought);
        let timed = self.store.settle_timed_now(&charges, Intent::Take);
        let allowed = conclude(&charges, &timed.verdicts, &mut items);
        let taken = charges.iter().zip(&items).zip(timed.verdicts.iter().zip(&timed.at));
        let taken = taken.map(|((charge, item), (verdict, at))| TakenHere {
            key: charge.key,
            limit: charge.limit.clone(),
            // A cost of a descriptor's own stays.
            taken: request
                .own_cost(usize::from(item.descriptor))
                .is_none()
                .then(|| Taken { at: *at, clear_at: at.plus(verdict.reset_after_us) }),
        });
        let taken: Vec<_> = taken.collect();
        // They borrow what the decision takes along.
        drop(charges);
        let decision = if items.is_empty() {
            unseen(rules, Source::Allow)
        } else {
            decided_locally(rules, brought.clone(), allowed, items.clone())
        };
        if !allowed {
            return Ok(Reserved::Denied(decision));
        }
        made_here.add(id, MadeHere { until: expires_at, estimate, taken, brought, items });
        Ok(Reserved::Reservation(Reservation { id, expires_at, decision }))
    }

    /// Corrects what was charged here while the service was away.
    fn settle_made_here(&self, made: MadeHere, cost: u64) -> Settled {
        let MadeHere { estimate, taken, brought, mut items, .. } = made;
        let correct = |here: &'_ TakenHere| match here.taken {
            Some(taken) if cost < estimate => Correction::GiveBack(taken),
            Some(_) if cost > estimate => Correction::Overdraw,
            _ => Correction::Look,
        };
        let by = cost.abs_diff(estimate);
        let corrections: Vec<_> =
            taken.iter().map(|here| (Charge::new(here.key, &here.limit, by), correct(here))).collect();
        let verdicts = self.store.correct_now(&corrections);
        for (item, verdict) in items.iter_mut().zip(verdicts) {
            item.verdict = verdict;
        }
        let rules = self.rules.load();
        let decision = if items.is_empty() {
            unseen(rules, Source::Allow)
        } else {
            decided_locally(rules, brought, true, items)
        };
        Settled { estimate, cost, decision }
    }

    /// Settles in the service, unless it was made without.
    pub(crate) async fn settle_remote(
        &self,
        service: &Service,
        id: &str,
        cost: u64,
    ) -> Result<Option<Settled>, RemoteError> {
        let known = ReservationId::parse(id);
        if let Some(made) = known.and_then(|id| service.made_here.lock().take(id)) {
            let in_time = self.store.now() < made.until;
            return Ok(in_time.then(|| self.settle_made_here(made, cost)));
        }
        let done = service.settle(id, spelling::cost(cost)).await.inspect_err(|error| service.note(error))?;
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
