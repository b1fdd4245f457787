//! Settling charges wherever they live: in one place, or in several at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Algorithm, Micros, Outcome, Verdict};
use tokio::sync::oneshot;

use super::RedisStore;
use super::batch::{Answer, SettledPart, Wish};
use super::lane::Refusal;
use super::routes::{Route, Routes, part_of};
use crate::Store;
use crate::charge::{Charge, Corrected, Correction, Force, Intent, Timed, Verdicts, blocked, blocked_by};
use crate::error::StoreError;

/// The numbers of charges of a request.
type Numbers = SmallVec<[usize; 4]>;

impl RedisStore {
    pub(super) fn send_off(&self, charge: &Charge<'_>, wish: Wish) {
        let routes = self.shared.routes.load();
        let sent = routes.of(self.part(charge)).map(|route| self.send(route, &[*charge], wish));
        if !matches!(sent, Some(Ok(_))) {
            self.shared.events.lost_refunds.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn part(&self, charge: &Charge<'_>) -> u32 {
        part_of(charge.part, self.shared.settings.parts)
    }

    /// Sends charges that go to one place on their way.
    fn send(
        &self,
        route: Route<'_>,
        charges: &[Charge<'_>],
        wish: Wish,
    ) -> Result<oneshot::Receiver<Result<Answer, StoreError>>, StoreError> {
        if !route.node.breaker.admits() {
            return Err(StoreError::Open);
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::Unreachable("there is no tokio runtime here".into()));
        }
        let (waiter, answer) = oneshot::channel();
        let most = self.shared.settings.most_waiting;
        let lane = route.node.lane(&self.shared);
        let waiter = match lane.push(most, &self.shared, route.group, charges, wish, Some(waiter)) {
            Ok(()) => return Ok(answer),
            Err(Refusal::Full) => {
                self.shared.events.failed(route.node, &StoreError::Full);
                return Err(StoreError::Full);
            }
            Err(Refusal::Closed(waiter)) => waiter,
        };
        let lane = route.node.new_lane(&self.shared);
        match lane.push(most, &self.shared, route.group, charges, wish, waiter) {
            Ok(()) => Ok(answer),
            Err(_) => Err(StoreError::Full),
        }
    }

    /// Sends charges to wherever they go, and waits for all of it. Answers come with the numbers of the
    /// charges they are about.
    async fn ask(&self, charges: &[Charge<'_>], wish: Wish) -> Vec<(Numbers, Result<Answer, StoreError>)> {
        let mut sent = SmallVec::<[(Numbers, _); 1]>::new();
        {
            let routes = self.shared.routes.load();
            for (route, numbers) in self.split(&routes, charges) {
                let answer = match route {
                    None => Err(nowhere()),
                    Some(route) if numbers.len() == charges.len() => self.send(route, charges, wish),
                    Some(route) => {
                        let wish =
                            if let Wish::Settle(intent) = wish { Wish::SettlePart(intent) } else { wish };
                        let some: SmallVec<[Charge<'_>; 4]> =
                            numbers.iter().map(|number| apart(charges[*number])).collect();
                        self.send(route, &some, wish)
                    }
                };
                sent.push((numbers, answer));
            }
        }
        let mut answers = Vec::with_capacity(sent.len());
        for (numbers, answer) in sent {
            let answer = match answer {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(runtime_ended())),
                Err(error) => Err(error),
            };
            answers.push((numbers, answer));
        }
        answers
    }

    /// Charges by where they go.
    fn split<'r>(
        &self,
        routes: &'r Routes,
        charges: &[Charge<'_>],
    ) -> SmallVec<[(Option<Route<'r>>, Numbers); 1]> {
        let mut places: SmallVec<[(Option<Route<'r>>, Numbers); 1]> = SmallVec::new();
        for (number, charge) in charges.iter().enumerate() {
            let route = routes.of(self.part(charge));
            match places.iter_mut().find(|(place, _)| same_place(place.as_ref(), route.as_ref())) {
                Some((_, numbers)) => numbers.push(number),
                None => places.push((route, SmallVec::from_slice(&[number]))),
            }
        }
        places
    }

    /// Gives back, in the background, what one server has taken of a request that another has denied.
    fn undo(&self, charges: &[Charge<'_>], taken: &[(Numbers, SettledPart)]) {
        for (numbers, part) in taken {
            for (number, verdict) in numbers.iter().zip(&part.verdicts) {
                let charge = charges[*number];
                if charge.cost == 0 || charge.count_denied || !verdict.allowed() {
                    continue;
                }
                let wish = match charge.limit.algorithm() {
                    Algorithm::Concurrency => Wish::Release,
                    _ => Wish::GiveBack { taken_at: Some(part.now) },
                };
                self.send_off(&charge, wish);
            }
        }
    }

    /// Settles charges of several places: each takes all of its own or none, and if one denies what is
    /// enforced, the others get theirs back.
    fn join(
        &self,
        charges: &[Charge<'_>],
        intent: Intent,
        answers: Vec<(Numbers, Result<Answer, StoreError>)>,
    ) -> Result<Verdicts, StoreError> {
        let nothing = Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 };
        let mut verdicts = Verdicts::from_elem(nothing, charges.len());
        let (mut parts, mut failed) = (Vec::new(), None);
        for (numbers, answer) in answers {
            match answer {
                Ok(Answer::Part(part)) => {
                    for (number, verdict) in numbers.iter().zip(&part.verdicts) {
                        verdicts[*number] = *verdict;
                    }
                    parts.push((numbers, part));
                }
                Ok(_) => failed = Some(StoreError::Garbled),
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() && !blocked(charges, &verdicts) {
            return Ok(verdicts);
        }
        // A part that was denied itself has taken nothing, and says so.
        parts.retain(|(numbers, part)| {
            !blocked_by(numbers.iter().map(|number| apart(charges[*number]).force), &part.verdicts)
        });
        if intent == Intent::Take {
            self.undo(charges, &parts);
        }
        for (numbers, part) in &parts {
            for (number, before) in numbers.iter().zip(&part.before) {
                if !charges[*number].count_denied {
                    verdicts[*number] = Verdict { outcome: verdicts[*number].outcome, ..*before };
                }
            }
        }
        failed.map_or(Ok(verdicts), Err)
    }
}

pub(super) fn nowhere() -> StoreError {
    StoreError::Unreachable("its keys are on no server just now".into())
}

/// Whoever waits is told nothing any more, but may have been sent.
fn runtime_ended() -> StoreError {
    StoreError::Broken("its runtime has ended".into())
}

/// A charge as part of a request that is settled in several places: whether all quotas are denied is not
/// known in any of them.
fn apart(charge: Charge<'_>) -> Charge<'_> {
    let force = if charge.force == Force::Quota { Force::Shadow } else { charge.force };
    Charge { force, ..charge }
}

fn same_place(one: Option<&Route<'_>>, two: Option<&Route<'_>>) -> bool {
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
        let mut answers = self.ask(charges, Wish::Settle(intent)).await;
        let verdicts = if answers.len() > 1 {
            self.join(charges, intent, answers)?
        } else {
            match answers.pop() {
                Some((_, Ok(Answer::Settled(verdicts)))) => verdicts,
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
        let mut answers = self.ask(charges, Wish::SettlePart(Intent::Take)).await;
        for (numbers, answer) in &answers {
            if let Ok(Answer::Part(part)) = answer {
                numbers.iter().for_each(|number| at[*number] = part.now);
            }
        }
        let verdicts = if answers.len() > 1 {
            self.join(charges, Intent::Take, answers)?
        } else {
            match answers.pop() {
                Some((_, Ok(Answer::Part(part)))) => part.verdicts,
                Some((_, Err(error))) => return Err(error),
                _ => return Err(StoreError::Garbled),
            }
        };
        if blocked(charges, &verdicts) {
            self.shared.denials.remember(charges, &verdicts);
        }
        Ok(Timed { verdicts, at })
    }

    async fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> Corrected {
        let charges: SmallVec<[Charge<'_>; 4]> = corrections.iter().map(|(charge, _)| *charge).collect();
        self.shared.denials.forget(&charges);
        // All are on their way before the first is waited for, and so mostly go together.
        let sent: SmallVec<[_; 4]> = corrections
            .iter()
            .map(|(charge, correction)| self.send_correction(charge, *correction))
            .collect();
        let mut corrected = Corrected::new();
        for sent in sent {
            let answer = match sent {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(runtime_ended())),
                Err(error) => Err(error),
            };
            corrected.push(answer.and_then(|answer| match answer {
                Answer::Settled(verdicts) => verdicts.first().copied().ok_or(StoreError::Garbled),
                _ => Err(StoreError::Garbled),
            }));
        }
        self.shared.denials.forget(&charges);
        corrected
    }

    async fn give_back(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.shared.denials.forget(charges);
        let answers = self.ask(charges, Wish::GiveBack { taken_at: None }).await;
        self.shared.denials.forget(charges);
        answers.into_iter().try_for_each(|(_, answer)| answer.map(|_| ()))
    }

    async fn renew(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.slot(slot, Wish::Renew).await
    }

    async fn release(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.shared.denials.forget(std::slice::from_ref(slot));
        self.slot(slot, Wish::Release).await
    }
}

impl RedisStore {
    fn send_correction(
        &self,
        charge: &Charge<'_>,
        correction: Correction,
    ) -> Result<oneshot::Receiver<Result<Answer, StoreError>>, StoreError> {
        let routes = self.shared.routes.load();
        let route = routes.of(self.part(charge)).ok_or_else(nowhere)?;
        self.send(route, std::slice::from_ref(charge), Wish::Correct(correction))
    }

    async fn slot(&self, slot: &Charge<'_>, wish: Wish) -> Result<bool, StoreError> {
        match self.ask(std::slice::from_ref(slot), wish).await.pop() {
            Some((_, Ok(Answer::Slot(held)))) => Ok(held),
            Some((_, Err(error))) => Err(error),
            _ => Err(StoreError::Garbled),
        }
    }
}
