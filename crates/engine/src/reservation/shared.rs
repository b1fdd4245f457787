//! Reservations in the store that nodes share. While it fails they are this node's own.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Taken;
use tidegate_stores::{StoreError, Verdicts};
use tokio::runtime::Handle;

use super::share::Share;
use super::{
    Decision, Holder, Home, Inner, Intent, Micros, Record, Request, Reservation, ReservationId, ReserveError,
    Reserved, Scope, SettleError, Settled, Settlement, bytes_to_keep, corrections, estimated, holder, micros,
    settled, unkept,
};
use crate::backend::Shared;
use crate::plan::Charges;

/// Settles to the end, even if whoever asked for it stops waiting: once the record is taken, nobody else
/// could correct what was charged.
pub(super) async fn settle_to_the_end(
    inner: &Arc<Inner>,
    id: &str,
    cost: u64,
) -> Result<Option<Settled>, SettleError> {
    let Some(id) = ReservationId::parse(id) else { return Ok(None) };
    if let Some(unkept) = id.as_unkept() {
        return Ok(inner.settle_unkept(unkept, cost));
    }
    let Ok(runtime) = Handle::try_current() else {
        return Err(StoreError::Unreachable("there is no tokio runtime here".into()).into());
    };
    let inner = Arc::clone(inner);
    let settling = async move {
        match inner.backend.shared() {
            Some(shared) => inner.settle_shared(shared, id, cost).await,
            None => Ok(None),
        }
    };
    let settled = runtime.spawn(settling).await;
    settled.unwrap_or_else(|_| Err(StoreError::Broken("its runtime has ended".into()).into()))
}

impl Inner {
    pub(super) async fn reserve_shared(
        &self,
        shared: &Shared,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<Reserved, ReserveError> {
        let memory = &self.backend.memory;
        let rules = self.rules.load();
        let share;
        let plan = self.backend.plan(&rules, request, Scope::RATES);
        if plan.items.is_empty() {
            let domain = plan.domain;
            drop(plan);
            return Ok(unkept(rules, domain, request, memory.now().plus(micros(lifetime))));
        }
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let holder = holder(&rules, request);
        bytes_to_keep(request)?;
        let part = plan.charges.first().map_or(0, |charge| charge.part);
        let most = self.reservations.most_of_holder();
        share = Share::new(&rules, request, most as u64, lifetime, part);
        // After those of the request, so that these keep their indexes.
        let charges: Charges<'_> =
            plan.charges.iter().copied().chain(share.as_ref().map(Share::charge)).collect();
        let limits = plan.items.len();
        let mut of_share = None;
        let (home, taken, verdicts, until) = match shared.take_timed(&charges).await {
            Ok(timed) => {
                if let (Some(verdict), Some(at)) = (timed.verdicts.get(limits), timed.at.get(limits)) {
                    if !verdict.allowed() {
                        return Err(ReserveError::FullOfHolder { count: most });
                    }
                    of_share = Some(Taken { at: *at, clear_at: at.plus(verdict.reset_after_us) });
                }
                let at = timed.at.iter().copied().max().unwrap_or_else(|| shared.about());
                (Home::Shared, estimated(request, &plan, &timed), timed.verdicts, at)
            }
            Err(error) => {
                tracing::debug!(%error, "reserved without the store");
                let timed = shared.fall_back(memory, &plan, Intent::Take);
                let mut taken = estimated(request, &plan, &timed);
                // Those that nobody looked at were not charged.
                taken.retain(|(_, taken)| taken.at != Micros(0));
                (Home::Fallback, taken, timed.verdicts, memory.now())
            }
        };
        let expires_at = until.plus(micros(lifetime));
        let kept = if plan.passes(&verdicts) {
            let mut record = Record::new(request, &taken, expires_at, home);
            if let Some(taken) = of_share {
                record = record.with_share(lifetime, taken);
            }
            match home {
                Home::Shared if keep(shared, id, &record, lifetime).await => Some(id),
                _ => match self.keep_here(holder, &record, lifetime) {
                    Ok(id) => Some(id),
                    Err(error) => {
                        // What was taken is given back. What is lost on the way stays charged.
                        let mut corrections = corrections(&record, request, &plan, 0);
                        corrections.extend(
                            share.as_ref().zip(of_share).map(|(share, taken)| share.give_back(taken)),
                        );
                        self.backend.correct(home.source(), &corrections).await;
                        return Err(error);
                    }
                },
            }
        } else {
            None
        };
        let concluded = plan.conclude(Settlement { verdicts, source: home.source() });
        let decision = Decision::concluded(rules.clone(), concluded, request);
        Ok(match kept {
            Some(id) => Reserved::Reservation(Reservation { id, expires_at, decision }),
            None => Reserved::Denied(decision),
        })
    }

    async fn settle_shared(
        &self,
        shared: &Shared,
        id: ReservationId,
        cost: u64,
    ) -> Result<Option<Settled>, SettleError> {
        if let Some(kept) = self.reservations.take(id, self.backend.memory.now()) {
            let settled = self.settle_anywhere(&kept.record, cost).await;
            if let Err(Unsettled { untouched: true, .. }) = &settled {
                self.reservations.put_back(id, kept);
            }
            return settled.map(Some).map_err(|unsettled| unsettled.error.into());
        }
        let (found, now) = shared.take_kept(&id.to_string()).await?;
        let Some(record) = found.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok()) else {
            return Ok(None);
        };
        let left_us = Micros(record.until_us).since(now);
        if left_us == 0 {
            return Ok(None);
        }
        let settled = self.settle_anywhere(&record, cost).await;
        if let Err(Unsettled { untouched: true, .. }) = &settled {
            keep(shared, id, &record, Duration::from_micros(left_us)).await;
        }
        settled.map(Some).map_err(|unsettled| unsettled.error.into())
    }

    /// Keeps a record in this process, under a name of its own: the store may have heard of the other after
    /// all, and nobody may settle it twice.
    fn keep_here(
        &self,
        holder: Holder,
        record: &Record,
        lifetime: Duration,
    ) -> Result<ReservationId, ReserveError> {
        let until = self.backend.memory.now().plus(micros(lifetime));
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let place = self.reservations.promise(holder, record.bytes(), self.backend.memory.now())?;
        place.fill(id, until, Box::new(record.clone()));
        Ok(id)
    }

    /// Settles where the estimate was taken.
    async fn settle_anywhere(&self, record: &Record, cost: u64) -> Result<Settled, Unsettled> {
        let request = record.request(|domain, specs| self.bring_again(domain, specs));
        let rules = self.rules.load();
        let share;
        let plan = self.backend.plan(&rules, &request, Scope::RATES);
        share = record.share().filter(|_| record.home == Home::Shared).and_then(|(lasts, taken)| {
            let part = plan.charges.first().map_or(0, |charge| charge.part);
            let most = self.reservations.most_of_holder() as u64;
            Some((Share::new(&rules, &request, most, lasts, part)?, taken))
        });
        let mut corrections = corrections(record, &request, &plan, cost);
        corrections.extend(share.as_ref().map(|(share, taken)| share.give_back(*taken)));
        let corrected = self.backend.correct(record.home.source(), &corrections).await;
        let untouched = corrected.iter().all(|one| one.as_ref().is_err_and(StoreError::nothing_sent));
        let verdicts: Result<Verdicts, _> = corrected.into_iter().collect();
        let verdicts = verdicts.map_err(|error| Unsettled { error, untouched })?;
        let decision = settled(rules.clone(), plan, verdicts, record.home.source(), &request);
        Ok(Settled { estimate: record.estimate, cost, decision })
    }
}

/// Puts a record where every node finds it.
async fn keep(shared: &Shared, id: ReservationId, record: &Record, lifetime: Duration) -> bool {
    let Ok(bytes) = serde_json::to_vec(record) else { return false };
    match shared.keep(&id.to_string(), &bytes, lifetime).await {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "a reservation could not be kept by the store");
            false
        }
    }
}

/// Why a reservation was not settled.
struct Unsettled {
    error: StoreError,
    /// Whether it is known that nothing of it was.
    untouched: bool,
}
