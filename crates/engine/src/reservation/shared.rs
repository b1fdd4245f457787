//! Reservations in the store that nodes share. While it fails they are this node's own.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Limit, Taken};
use tidegate_stores::{Corrected, Store as _, StoreError};
use tokio::runtime::Handle;

use super::share::Share;
use super::{
    Charge, Correction, Holder, Home, Inner, Micros, Record, Request, Reservation, ReservationId,
    ReserveError, Reserved, SettleError, Settled, bytes_to_keep, corrections, decided, estimated, holder,
    micros, unkept,
};
use crate::decide::{Charges, Intent, Scope, conclude, plan};
use crate::decision::{Items, Source};
use crate::shared::{Shared, keep_together};

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
        match &inner.shared {
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
        let rules = self.rules.load();
        let share;
        let (mut charges, mut items) = (Charges::new(), Items::new());
        let domain = plan(&rules, request, Scope::Rates { hold: false }, &mut charges, &mut items);
        if items.is_empty() {
            drop(charges);
            return Ok(unkept(rules, domain, request, self.store.now().plus(micros(lifetime))));
        }
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let holder = holder(&rules, request);
        keep_together(&rules, domain, &mut charges, &items, request);
        bytes_to_keep(request)?;
        let part = charges.first().map_or(0, |charge| charge.part);
        let most = self.reservations.most_of_holder();
        share = Share::new(&rules, request, most as u64, lifetime, part);
        // After those of the request, so that these keep their numbers.
        charges.extend(share.as_ref().map(Share::charge));
        let limits = items.len();
        let mut of_share = None;
        let (home, taken, allowed, until) = match shared.store.settle_timed(&charges).await {
            Ok(timed) => {
                if let (Some(verdict), Some(at)) = (timed.verdicts.get(limits), timed.at.get(limits)) {
                    if !verdict.allowed() {
                        return Err(ReserveError::FullOfHolder { count: most });
                    }
                    of_share = Some(Taken { at: *at, clear_at: at.plus(verdict.reset_after_us) });
                }
                let allowed = conclude(&charges, &timed.verdicts, &mut items);
                let at = timed.at.iter().copied().max().unwrap_or_else(|| shared.store.about());
                (Home::Shared, estimated(request, &charges, &items, &timed), allowed, at)
            }
            Err(error) => {
                tracing::debug!(%error, "reserved without the store");
                charges.truncate(limits);
                let timed = self.fall_back_timed(shared, &rules, domain, &charges, &items, Intent::Take);
                let allowed = conclude(&charges, &timed.verdicts, &mut items);
                let mut taken = estimated(request, &charges, &items, &timed);
                // Those that nobody looked at were not charged.
                taken.retain(|(_, taken)| taken.at != Micros(0));
                (Home::Fallback, taken, allowed, self.store.now())
            }
        };
        let expires_at = until.plus(micros(lifetime));
        let kept = if allowed {
            let mut record = Record::new(request, &taken, expires_at, home);
            if let Some(taken) = of_share {
                record = record.with_share(lifetime, taken);
            }
            match home {
                Home::Shared if self.keep(shared, id, &record, lifetime).await => Some(id),
                _ => match self.keep_here(holder, &record, lifetime) {
                    Ok(id) => Some(id),
                    Err(error) => {
                        // What was planned is given back, whatever the rules say by now. What is lost stays charged.
                        let mut corrections = corrections(&record, request, &charges, &items, 0);
                        corrections.extend(
                            share.as_ref().zip(of_share).map(|(share, taken)| share.give_back(taken)),
                        );
                        self.correct_anywhere(shared, home, &corrections).await;
                        return Err(error);
                    }
                },
            }
        } else {
            None
        };
        drop(charges);
        let mut decision = decided(rules, domain, allowed, items, request);
        decision.source = if home == Home::Shared { Source::Shared } else { Source::Fallback };
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
        if let Some(kept) = self.reservations.take(id, self.store.now()) {
            let settled = self.settle_anywhere(shared, &kept.record, cost).await;
            if let Err(Unsettled { untouched: true, .. }) = &settled {
                self.reservations.put_back(id, kept);
            }
            return settled.map(Some).map_err(|unsettled| unsettled.error.into());
        }
        let (found, now) = shared.store.take_kept(&id.to_string()).await?;
        let Some(record) = found.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok()) else {
            return Ok(None);
        };
        let left_us = Micros(record.until_us).since(now);
        if left_us == 0 {
            return Ok(None);
        }
        let settled = self.settle_anywhere(shared, &record, cost).await;
        if let Err(Unsettled { untouched: true, .. }) = &settled {
            self.keep(shared, id, &record, Duration::from_micros(left_us)).await;
        }
        settled.map(Some).map_err(|unsettled| unsettled.error.into())
    }

    /// Puts a record where every node finds it.
    async fn keep(&self, shared: &Shared, id: ReservationId, record: &Record, lifetime: Duration) -> bool {
        let Ok(bytes) = serde_json::to_vec(record) else { return false };
        match shared.store.keep(&id.to_string(), &bytes, lifetime).await {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "a reservation could not be kept by the store");
                false
            }
        }
    }

    /// Keeps a record in this process, under a name of its own: the store may have heard of the other after
    /// all, and nobody may settle it twice.
    fn keep_here(
        &self,
        holder: Holder,
        record: &Record,
        lifetime: Duration,
    ) -> Result<ReservationId, ReserveError> {
        let until = self.store.now().plus(micros(lifetime));
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let place = self.reservations.promise(holder, record.bytes(), self.store.now())?;
        place.fill(id, until, Box::new(record.clone()));
        Ok(id)
    }

    /// Corrects charges where they were taken.
    async fn correct_anywhere(
        &self,
        shared: &Shared,
        home: Home,
        corrections: &[(Charge<'_>, Correction)],
    ) -> Corrected {
        if home == Home::Shared {
            return shared.store.correct(corrections).await;
        }
        let own_limits: Vec<Limit> = corrections.iter().map(|(charge, _)| shared.share_of(charge)).collect();
        let of_share = corrections
            .iter()
            .zip(&own_limits)
            .map(|((charge, it), limit)| (Charge { limit, ..*charge }, *it));
        let mine: Vec<(Charge<'_>, Correction)> = of_share.collect();
        self.store.correct_now(&mine).into_iter().map(Ok).collect()
    }

    /// Settles where the estimate was taken.
    async fn settle_anywhere(
        &self,
        shared: &Shared,
        record: &Record,
        cost: u64,
    ) -> Result<Settled, Unsettled> {
        let request = record.request(|domain, specs| self.bring_again(domain, specs));
        let rules = self.rules.load();
        let share;
        let (mut charges, mut items) = (Charges::new(), Items::new());
        let domain = plan(&rules, &request, Scope::Rates { hold: false }, &mut charges, &mut items);
        keep_together(&rules, domain, &mut charges, &items, &request);
        let mut corrections = corrections(record, &request, &charges, &items, cost);
        share = record.share().filter(|_| record.home == Home::Shared).and_then(|(lasts, taken)| {
            let part = charges.first().map_or(0, |charge| charge.part);
            let most = self.reservations.most_of_holder() as u64;
            Some((Share::new(&rules, &request, most, lasts, part)?, taken))
        });
        corrections.extend(share.as_ref().map(|(share, taken)| share.give_back(*taken)));
        let corrected = self.correct_anywhere(shared, record.home, &corrections).await;
        let untouched = corrected.iter().all(|one| one.as_ref().is_err_and(StoreError::nothing_sent));
        let verdicts: Result<Vec<_>, _> = corrected.into_iter().collect();
        let verdicts = verdicts.map_err(|error| Unsettled { error, untouched })?;
        conclude(&charges, &verdicts, &mut items);
        drop((charges, corrections));
        let mut decision = decided(rules, domain, true, items, &request);
        decision.source = if record.home == Home::Shared { Source::Shared } else { Source::Fallback };
        Ok(Settled { estimate: record.estimate, cost, decision })
    }
}

/// Why a reservation was not settled.
struct Unsettled {
    error: StoreError,
    /// Whether it is known that nothing of it was.
    untouched: bool,
}
