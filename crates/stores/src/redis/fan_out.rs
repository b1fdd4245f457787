//! Settles charges on the servers that hold their counters: one, or several at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Algorithm, Micros, Outcome, Verdict};
use tokio::sync::oneshot;

use super::RedisStore;
use super::batch::{Completion, Operation, PartialSettlement};
use super::lane::Refusal;
use super::node::Node;
use super::routes::{Route, Routes, partition_of};
use crate::Store;
use crate::charge::{
    Charge, Corrected, Correction, Force, Grant, Intent, Timed, Verdicts, blocked, blocked_by,
};
use crate::error::StoreError;

/// Indexes of some of a request's charges.
type Indexes = SmallVec<[usize; 4]>;

/// The result of each route that a request's charges were sent to; mostly there is one.
type Results = SmallVec<[(Indexes, Result<Completion, StoreError>); 1]>;

/// Receives the result of charges that were sent.
type Receiver = oneshot::Receiver<Result<Completion, StoreError>>;

impl RedisStore {
    /// Sends a charge without waiting for the result. A failure is counted as a lost refund.
    pub(super) fn send_off(&self, charge: &Charge<'_>, operation: Operation) {
        let routes = self.shared.routes.load();
        let sent = routes.of(self.partition(charge)).map(|route| self.send(route, &[*charge], operation));
        if !matches!(sent, Some(Ok(_))) {
            self.shared.events.lost_refunds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the partition of a charge.
    pub(super) fn partition(&self, charge: &Charge<'_>) -> u32 {
        partition_of(charge.partition, self.shared.settings.partitions)
    }

    /// Sends charges of one route. Returns the receiver of their result.
    fn send(
        &self,
        route: Route<'_>,
        charges: &[Charge<'_>],
        operation: Operation,
    ) -> Result<Receiver, StoreError> {
        if !route.node.breaker.admits() {
            return Err(StoreError::Open);
        }
        self.send_admitted(route, charges, operation)
    }

    /// Sends charges of one route whose server the breaker admits.
    fn send_admitted(
        &self,
        route: Route<'_>,
        charges: &[Charge<'_>],
        operation: Operation,
    ) -> Result<Receiver, StoreError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::Unreachable("there is no tokio runtime here".into()));
        }
        let (waiter, receiver) = oneshot::channel();
        let max_waiting = self.shared.settings.max_waiting;
        let lane = route.node.lane(&self.shared);
        let waiter = match lane.push(max_waiting, &self.shared, route.group, charges, operation, Some(waiter))
        {
            Ok(()) => return Ok(receiver),
            Err(Refusal::Full) => {
                self.shared.events.failed(route.node, &StoreError::Full);
                return Err(StoreError::Full);
            }
            Err(Refusal::Closed(waiter)) => waiter,
        };
        let lane = route.node.new_lane(&self.shared);
        match lane.push(max_waiting, &self.shared, route.group, charges, operation, waiter) {
            Ok(()) => Ok(receiver),
            Err(_) => Err(StoreError::Full),
        }
    }

    /// Sends charges to their servers, and waits for all results. Each result comes with the indexes of its charges.
    async fn run(&self, charges: &[Charge<'_>], operation: Operation) -> Results {
        let mut sent = SmallVec::<[(Indexes, _); 1]>::new();
        {
            let routes = self.shared.routes.load();
            for (route, indexes) in self.split(&routes, charges) {
                let receiver = match route {
                    None => Err(nowhere()),
                    Some(route) if indexes.len() == charges.len() => self.send(route, charges, operation),
                    Some(route) => {
                        let operation = if let Operation::Settle(intent) = operation {
                            Operation::SettleSome(intent)
                        } else {
                            operation
                        };
                        let some: SmallVec<[Charge<'_>; 4]> =
                            indexes.iter().map(|index| without_quota(charges[*index])).collect();
                        self.send(route, &some, operation)
                    }
                };
                sent.push((indexes, receiver));
            }
        }
        let mut results = Results::new();
        for (indexes, receiver) in sent {
            results.push((indexes, receive(receiver).await));
        }
        results
    }

    /// Groups the charges of a request by route.
    fn split<'r>(
        &self,
        routes: &'r Routes,
        charges: &[Charge<'_>],
    ) -> SmallVec<[(Option<Route<'r>>, Indexes); 1]> {
        let mut groups: SmallVec<[(Option<Route<'r>>, Indexes); 1]> = SmallVec::new();
        for (index, charge) in charges.iter().enumerate() {
            let route = routes.of(self.partition(charge));
            match groups.iter_mut().find(|(other, _)| is_same_route(other.as_ref(), route.as_ref())) {
                Some((_, indexes)) => indexes.push(index),
                None => groups.push((route, SmallVec::from_slice(&[index]))),
            }
        }
        groups
    }

    /// Refunds, in the background, what one server has taken of a request that another has denied.
    fn undo(&self, charges: &[Charge<'_>], taken: &[(Indexes, Box<PartialSettlement>)]) {
        for (indexes, some) in taken {
            for (index, verdict) in indexes.iter().zip(&some.verdicts) {
                let charge = charges[*index];
                if charge.cost == 0 || charge.count_denied || !verdict.allowed() {
                    continue;
                }
                let operation = match charge.limit.algorithm() {
                    Algorithm::Concurrency => Operation::Release,
                    _ => Operation::GiveBack { taken_at: Some(some.now) },
                };
                self.send_off(&charge, operation);
            }
        }
    }

    /// Combines the results of a request that was settled on several routes. Each route has taken all of its charges
    /// or none; if one denies the request, the others are refunded.
    fn join(&self, charges: &[Charge<'_>], intent: Intent, results: Results) -> Result<Verdicts, StoreError> {
        let nothing = Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 };
        let mut verdicts = Verdicts::from_elem(nothing, charges.len());
        let (mut settled, mut failed) = (Vec::new(), None);
        for (indexes, result) in results {
            match result {
                Ok(Completion::SettledSome(some)) => {
                    for (index, verdict) in indexes.iter().zip(&some.verdicts) {
                        verdicts[*index] = *verdict;
                    }
                    settled.push((indexes, some));
                }
                Ok(_) => failed = Some(StoreError::Garbled),
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() && !blocked(charges, &verdicts) {
            return Ok(verdicts);
        }
        // A route that denied the request itself has taken nothing.
        settled.retain(|(indexes, some)| {
            !blocked_by(indexes.iter().map(|index| without_quota(charges[*index]).force).zip(&some.verdicts))
        });
        if intent == Intent::Take {
            self.undo(charges, &settled);
        }
        for (indexes, some) in &settled {
            for (index, before) in indexes.iter().zip(&some.before) {
                if !charges[*index].count_denied {
                    verdicts[*index] = Verdict { outcome: verdicts[*index].outcome, ..*before };
                }
            }
        }
        failed.map_or(Ok(verdicts), Err)
    }
}

/// Returns the error for charges whose partition has no server at the moment.
pub(super) fn nowhere() -> StoreError {
    StoreError::Unreachable("its keys are on no server just now".into())
}

/// Waits for the result of charges, if they were sent.
async fn receive(sent: Result<Receiver, StoreError>) -> Result<Completion, StoreError> {
    // Without a result, they may have been settled nevertheless.
    sent?.await.unwrap_or_else(|_| Err(StoreError::Broken("its runtime has ended".into())))
}

/// Returns a charge as it is settled when others are settled elsewhere. No server knows whether all quotas deny, so a
/// quota charge is only evaluated.
fn without_quota(charge: Charge<'_>) -> Charge<'_> {
    let force = if charge.force == Force::Quota { Force::Shadow } else { charge.force };
    Charge { force, ..charge }
}

fn is_same_route(one: Option<&Route<'_>>, two: Option<&Route<'_>>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => Arc::ptr_eq(one.node, two.node) && one.group == two.group,
        (None, None) => true,
        _ => false,
    }
}

impl Store for RedisStore {
    async fn settle(&self, charges: &[Charge<'_>], intent: Intent) -> Result<Verdicts, StoreError> {
        if charges.is_empty() {
            return Ok(Verdicts::new());
        }
        if intent == Intent::Take
            && let Some(verdicts) = self.shared.denials.recall(charges)
        {
            return Ok(verdicts);
        }
        let mut results = self.run(charges, Operation::Settle(intent)).await;
        let verdicts = if results.len() > 1 {
            self.join(charges, intent, results)?
        } else {
            match results.pop() {
                Some((_, Ok(Completion::Settled(verdicts)))) => verdicts,
                Some((_, Err(error))) => return Err(error),
                _ => return Err(StoreError::Garbled),
            }
        };
        if intent == Intent::Take && blocked(charges, &verdicts) {
            self.shared.denials.remember(charges, &verdicts);
        }
        Ok(verdicts)
    }

    async fn settle_timed(&self, charges: &[Charge<'_>]) -> Result<Timed, StoreError> {
        let mut at: SmallVec<[Micros; 4]> = smallvec![self.shared.about(); charges.len()];
        if charges.is_empty() {
            return Ok(Timed { verdicts: Verdicts::new(), at });
        }
        if let Some(verdicts) = self.shared.denials.recall(charges) {
            return Ok(Timed { verdicts, at });
        }
        let mut results = self.run(charges, Operation::SettleSome(Intent::Take)).await;
        for (indexes, result) in &results {
            if let Ok(Completion::SettledSome(some)) = result {
                indexes.iter().for_each(|index| at[*index] = some.now);
            }
        }
        let verdicts = if results.len() > 1 {
            self.join(charges, Intent::Take, results)?
        } else {
            match results.pop() {
                Some((_, Ok(Completion::SettledSome(some)))) => some.verdicts,
                Some((_, Err(error))) => return Err(error),
                _ => return Err(StoreError::Garbled),
            }
        };
        if blocked(charges, &verdicts) {
            self.shared.denials.remember(charges, &verdicts);
        }
        Ok(Timed { verdicts, at })
    }

    async fn take_up_to(&self, charge: &Charge<'_>) -> Result<Grant, StoreError> {
        let Charge { key, limit, cost, partition, .. } = *charge;
        if !limit.is_divisible() {
            return Err(StoreError::Indivisible);
        }
        let cost = cost.min(limit.burst().max(1));
        let charge = Charge { partition, ..Charge::new(key, limit, cost) };
        match self.run_one(&charge, Operation::TakeUpTo).await? {
            Completion::Granted(grant) => Ok(grant),
            _ => Err(StoreError::Garbled),
        }
    }

    async fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> Corrected {
        let charges: SmallVec<[Charge<'_>; 4]> = corrections.iter().map(|(charge, _)| *charge).collect();
        self.shared.denials.forget(&charges);
        // All are sent before the first is waited for, so most of them share a batch.
        let sent = self.send_corrections(corrections);
        let mut corrected = Corrected::new();
        for sent in sent {
            corrected.push(receive(sent).await.and_then(|completion| match completion {
                Completion::Settled(verdicts) => verdicts.first().copied().ok_or(StoreError::Garbled),
                _ => Err(StoreError::Garbled),
            }));
        }
        self.shared.denials.forget(&charges);
        corrected
    }

    async fn give_back(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.shared.denials.forget(charges);
        let results = self.run(charges, Operation::GiveBack { taken_at: None }).await;
        self.shared.denials.forget(charges);
        results.into_iter().try_for_each(|(_, result)| result.map(|_| ()))
    }

    async fn renew(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.slot(slot, Operation::Renew).await
    }

    async fn release(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.shared.denials.forget(std::slice::from_ref(slot));
        self.slot(slot, Operation::Release).await
    }
}

impl RedisStore {
    /// Sends corrections that belong together. The breaker of a recovering server is asked only once, so that it
    /// admits all of its corrections or none.
    fn send_corrections(
        &self,
        corrections: &[(Charge<'_>, Correction)],
    ) -> SmallVec<[Result<Receiver, StoreError>; 4]> {
        let routes = self.shared.routes.load();
        let mut admissions: SmallVec<[(&Arc<Node>, bool); 1]> = SmallVec::new();
        let mut send = |charge: &Charge<'_>, correction: Correction| {
            let route = routes.of(self.partition(charge)).ok_or_else(nowhere)?;
            let known = admissions.iter().find(|(node, _)| Arc::ptr_eq(node, route.node));
            let admitted = known.map_or_else(|| route.node.breaker.admits(), |(_, admitted)| *admitted);
            if known.is_none() {
                admissions.push((route.node, admitted));
            }
            if !admitted {
                return Err(StoreError::Open);
            }
            self.send_admitted(route, std::slice::from_ref(charge), Operation::Correct(correction))
        };
        corrections.iter().map(|(charge, correction)| send(charge, *correction)).collect()
    }

    async fn slot(&self, slot: &Charge<'_>, operation: Operation) -> Result<bool, StoreError> {
        match self.run_one(slot, operation).await? {
            Completion::Slot(held) => Ok(held),
            _ => Err(StoreError::Garbled),
        }
    }

    /// Sends a single charge, and waits for its result.
    async fn run_one(&self, charge: &Charge<'_>, operation: Operation) -> Result<Completion, StoreError> {
        let result = self.run(std::slice::from_ref(charge), operation).await.pop();
        result.map_or(Err(StoreError::Garbled), |(_, result)| result)
    }
}
