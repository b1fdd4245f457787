//! Reservations in the shared store. While it fails, they are stored in this process.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::Taken;
use tidegate_stores::{Store as _, StoreError, Verdicts};
use tokio::runtime::Handle;

use super::book::{Claim, Kept};
use super::share::Share;
use super::{
    Charged, Decision, Holder, Home, Inner, Intent, Micros, Record, Request, Reservation, ReservationId,
    ReserveError, Reserved, Scope, SettleError, Settled, Source, bytes_to_keep, corrections, counters,
    estimated, holder, micros, settled, unkept,
};
use crate::backend::Shared;
use crate::plan::Charges;

/// How many times the record of a reservation is requested if the store does not reply.
const TAKE_TRIES: u32 = 3;

/// Settles completely, even if the caller stops waiting: once the record is taken, nobody else can correct what was
/// charged.
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
        let mut charged = Charged::new(self.rules.load());
        let share;
        let mut plan = self.backend.plan(&mut charged, request, Scope::RATES);
        if plan.items.is_empty() {
            drop(plan);
            return Ok(unkept(charged, request, memory.now().plus(micros(lifetime))));
        }
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let holder = holder(plan.rules, request);
        bytes_to_keep(request)?;
        let partition = plan.charges.first().map_or(0, |charge| charge.partition);
        let most = self.reservations.most_of_holder();
        share = Share::new(plan.rules, request, most as u64, lifetime, partition);
        // After the charges of the request, so that these keep their indexes.
        let taken_together: Charges<'_> =
            plan.charges.iter().copied().chain(share.as_ref().map(Share::charge)).collect();
        let limits = plan.items.len();
        let mut of_share = None;
        let (home, taken, until) = match shared.store().settle_timed(&taken_together).await {
            Ok(timed) => {
                if let (Some(verdict), Some(at)) = (timed.verdicts.get(limits), timed.at.get(limits)) {
                    if !verdict.allowed() {
                        return Err(ReserveError::FullOfHolder { count: most });
                    }
                    of_share = Some(Taken { at: *at, clear_at: at.plus(verdict.reset_after_us) });
                }
                let at = timed.at.iter().copied().max().unwrap_or_else(|| shared.about());
                plan.conclude(&timed.verdicts, Source::Shared);
                (Home::Shared, estimated(request, &plan, |index| timed.at[index]), at)
            }
            Err(error) => {
                tracing::debug!(%error, "reserved without the store");
                let timed = shared.fall_back(memory, &plan, Intent::Take);
                plan.conclude(&timed.verdicts, Source::Fallback);
                let mut taken = estimated(request, &plan, |index| timed.at[index]);
                // Charges that were not evaluated were not taken.
                taken.retain(|(_, taken)| taken.at != Micros(0));
                (Home::Fallback, taken, memory.now())
            }
        };
        let expires_at = until.plus(micros(lifetime));
        let kept = if plan.allowed() {
            let mut record = Record::new(request, &taken, expires_at, home);
            if let Some(taken) = of_share {
                record = record.with_share(lifetime, taken);
            }
            match home {
                Home::Shared if keep(shared, id, &record, lifetime).await.is_ok() => Some(id),
                _ => match self.keep_here(holder, &record, lifetime) {
                    Ok(id) => Some(id),
                    Err(error) => {
                        // Give back what was taken. If that is lost, it stays charged.
                        let counters = counters(&record, request, &plan);
                        let mut corrections = corrections(&record, &counters, &plan, 0);
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
        drop((plan, taken_together));
        let decision = Decision::from(charged);
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
        if let Some(mut kept) = self.reservations.take(id, self.backend.memory.now()) {
            let settled = self.settle_anywhere(&mut kept.record, cost).await;
            if let Err(Unsettled { rest: true, .. }) = &settled {
                self.reservations.put_back(id, kept);
            }
            return settled.map(Some).map_err(|unsettled| unsettled.error.into());
        }
        let (found, now) = self.take_record(shared, id).await?;
        let Some(mut record) = found.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok()) else {
            return Ok(None);
        };
        let left_us = Micros(record.until_us).since(now);
        if left_us == 0 {
            return Ok(None);
        }
        let settled = self.settle_anywhere(&mut record, cost).await;
        if let Err(Unsettled { rest: true, .. }) = &settled {
            self.put_record_back(shared, id, record, left_us).await;
        }
        settled.map(Some).map_err(|unsettled| unsettled.error.into())
    }

    /// Removes a record from the store. If there is no reply, repeats the request with the same claim, which is also
    /// used by the next call that settles the reservation on this node.
    async fn take_record(
        &self,
        shared: &Shared,
        id: ReservationId,
    ) -> Result<(Option<Vec<u8>>, Micros), StoreError> {
        let claim = self.reservations.claim(id);
        let Some(Claim { number, mut unanswered }) = claim else {
            return Err(StoreError::Unreachable("the system has no random bytes".into()));
        };
        let name = id.to_string();
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match shared.take_kept(&name, number).await {
                Ok(taken) => return Ok(taken),
                Err(error) => error,
            };
            unanswered |= !error.nothing_sent();
            if unanswered && tries < TAKE_TRIES {
                continue;
            }
            if unanswered {
                self.reservations.keep_claim(id, number);
            }
            return Err(error);
        }
    }

    /// Puts back a record that was not settled, or only in part. If the store does not respond, keeps the record in
    /// this process.
    async fn put_record_back(&self, shared: &Shared, id: ReservationId, record: Record, left_us: u64) {
        match keep(shared, id, &record, Duration::from_micros(left_us)).await {
            // It must not be settled twice, so it is kept in one place only.
            Err(error) if error.nothing_sent() => {}
            _ => return,
        }
        let request = record.request(|domain, specs| self.bring_again(domain, specs));
        let holder = holder(&self.rules.load(), &request);
        let until = self.backend.memory.now().plus(left_us);
        drop(request);
        self.reservations.put_back(id, Kept { until, holder, record: Box::new(record) });
    }

    /// Keeps a record in this process under a new ID: the store may have received the record after all, and it must
    /// not be settled twice.
    fn keep_here(
        &self,
        holder: Holder,
        record: &Record,
        lifetime: Duration,
    ) -> Result<ReservationId, ReserveError> {
        let until = self.backend.memory.now().plus(micros(lifetime));
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let promise = self.reservations.promise(holder, record.bytes(), self.backend.memory.now())?;
        promise.fill(id, until, Box::new(record.clone()));
        Ok(id)
    }

    /// Settles where the estimate was taken from. If only a part was settled, the record says which.
    async fn settle_anywhere(&self, record: &mut Record, cost: u64) -> Result<Settled, Unsettled> {
        let kept = &*record;
        let request = kept.request(|domain, specs| self.bring_again(domain, specs));
        let mut charged = Charged::new(self.rules.load());
        let share;
        let mut plan = self.backend.plan(&mut charged, &request, Scope::RATES);
        share = kept.share().filter(|_| kept.home == Home::Shared).and_then(|(lasts, taken)| {
            let partition = plan.charges.first().map_or(0, |charge| charge.partition);
            let most = self.reservations.most_of_holder() as u64;
            Some((Share::new(plan.rules, &request, most, lasts, partition)?, taken))
        });
        let counters = counters(kept, &request, &plan);
        let mut corrections = corrections(kept, &counters, &plan, cost);
        corrections.extend(share.as_ref().map(|(share, taken)| share.give_back(*taken)));
        let corrected = self.backend.correct(kept.home.source(), &corrections).await;
        let rest: SmallVec<[bool; 4]> =
            corrected.iter().map(|one| one.as_ref().is_err_and(StoreError::nothing_sent)).collect();
        let verdicts: Result<Verdicts, _> = corrected.into_iter().collect();
        let error = match verdicts {
            Ok(verdicts) => {
                plan.conclude(&verdicts, kept.home.source());
                drop((plan, corrections));
                return Ok(Settled { estimate: kept.estimate, cost, decision: settled(charged) });
            }
            Err(error) => error,
        };
        drop((corrections, plan));
        drop(request);
        // What was sent counts as done, even without a reply, so that nothing is given back twice.
        for (counter, rest) in counters.iter().zip(&rest) {
            if let (Some(counter), false) = (counter, rest) {
                record.set_charged(*counter, cost);
            }
        }
        if rest.get(counters.len()) == Some(&false) {
            record.give_share_back();
        }
        Err(Unsettled { error, rest: rest.contains(&true) })
    }
}

/// Stores a record where every node finds it.
async fn keep(
    shared: &Shared,
    id: ReservationId,
    record: &Record,
    lifetime: Duration,
) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(record).map_err(|_| StoreError::Garbled)?;
    let kept = shared.keep(&id.to_string(), &bytes, lifetime).await;
    if let Err(error) = &kept {
        tracing::debug!(%error, "a reservation could not be kept by the store");
    }
    kept
}

/// The error for a reservation that was not settled.
struct Unsettled {
    error: StoreError,
    /// Whether it is known that a part was not settled, so that settling can be retried.
    rest: bool,
}
