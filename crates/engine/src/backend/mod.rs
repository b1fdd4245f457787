//! Settles the charges of a plan: the only interface between the engine and its stores.
//!
//! [`Backend`] lists the operations of a backend; [`Store`] lists those it needs from a store. Counters are in this
//! process ([`MemoryStore`]) or in a store that many nodes share ([`shared`]), with a fallback for when that store
//! fails (`fallback`). Only this file knows which stores were compiled in.

#[cfg(not(feature = "redis"))]
#[path = "absent.rs"]
pub(crate) mod shared;
#[cfg(feature = "redis")]
pub(crate) mod shared;

#[cfg(feature = "redis")]
mod fallback;

pub(crate) use self::shared::Shared;
#[cfg(feature = "redis")]
pub use self::shared::StoreHealth;

use std::time::Duration;

use tidegate_stores::{
    Charge, Corrected, Correction, Grant, Intent, MemoryStore, Store, StoreError, Verdicts,
};

use crate::decision::{Charged, Source};
use crate::plan::{Charges, Plan, Scope};
use crate::request::Request;

/// How a node decides while the shared store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The part of this node's share of a limit that is admitted, in percent.
    pub share_percent: u32,
    /// The part that is admitted once the store has failed for `tighten_after`, in percent.
    pub later_share_percent: u32,
    /// How long the store has to fail before `later_share_percent` applies.
    pub tighten_after: Duration,
}

impl Default for Fallback {
    fn default() -> Self {
        Self { share_percent: 50, later_share_percent: 25, tighten_after: Duration::from_mins(1) }
    }
}

/// The backend of a limiter, which settles the charges of plans.
pub(crate) struct Backend {
    /// The counters of this process. If there is a shared store, they are used while it fails.
    pub(crate) memory: MemoryStore,
    /// The shared store, if there is one.
    shared: Option<Shared>,
}

impl Backend {
    pub(crate) fn new(memory: MemoryStore, shared: Option<Shared>) -> Self {
        Self { memory, shared }
    }

    /// Returns the shared store, if there is one.
    #[inline]
    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// Plans a request. For a shared store, charges are assigned to partitions.
    pub(crate) fn plan<'d>(
        &self,
        charged: &'d mut Charged,
        request: &'d Request<'_>,
        scope: Scope,
    ) -> Plan<'d> {
        let mut plan = Plan::new(charged, request, scope);
        if self.shared.is_some() {
            plan.keep_together(request);
        }
        plan
    }

    /// Settles a plan: takes every charge or none. While the shared store fails, the rule's `on_store_error` decides.
    pub(crate) async fn settle(&self, plan: &mut Plan<'_>, intent: Intent) {
        match &self.shared {
            Some(shared) => shared.settle(&self.memory, plan, intent).await,
            None => drop(plan.settle_in(&self.memory, intent)),
        }
    }

    /// Returns the verdicts of charges without taking them. While the shared store fails, the verdicts are those of
    /// this process.
    pub(crate) async fn look(&self, charges: &[Charge<'_>]) -> (Verdicts, Source) {
        if let Some(shared) = &self.shared
            && let Ok(verdicts) = shared.store().settle(charges, Intent::Look).await
        {
            return (verdicts, Source::Shared);
        }
        let mut verdicts = Verdicts::new();
        self.memory.settle_now(charges, Intent::Look, &mut verdicts);
        (verdicts, Source::Memory)
    }

    /// Takes as many units of a charge's cost as fit. If the shared store fails, nothing is taken.
    #[expect(dead_code, reason = "leases will take units of the shared store by it")]
    pub(crate) async fn take_up_to(&self, charge: &Charge<'_>) -> Result<Grant, StoreError> {
        match &self.shared {
            Some(shared) => shared.store().take_up_to(charge).await,
            None => self.memory.take_up_to_now(charge),
        }
    }

    /// Corrects charges that were taken before, in the store where they were taken, each on its own.
    pub(crate) async fn correct(
        &self,
        source: Source,
        corrections: &[(Charge<'_>, Correction)],
    ) -> Corrected {
        match &self.shared {
            Some(shared) => shared.correct(&self.memory, source, corrections).await,
            None => self.memory.correct_now(corrections).into_iter().map(Ok).collect(),
        }
    }

    /// Gives each charge's cost back to its limit; while the shared store fails, to this node's share of it.
    pub(crate) async fn give_back(&self, charges: &[Charge<'_>]) {
        if let Some(shared) = &self.shared {
            match shared.store().give_back(charges).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "a refund was lost"),
            }
        }
        self.memory.give_back_now(charges);
    }

    /// Gives charges back as [`Backend::give_back`] does, both in the shared store and in this process.
    pub(crate) async fn give_back_everywhere(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.memory.give_back_now(charges);
        match &self.shared {
            Some(shared) => shared.store().give_back(charges).await,
            None => Ok(()),
        }
    }

    /// Gives charges back in the background.
    pub(crate) fn give_back_soon(&self, charges: &Charges<'_>) {
        match &self.shared {
            Some(shared) => shared.give_back_soon(charges),
            None => self.memory.give_back_now(charges),
        }
    }

    /// Restarts the timeouts of held slots. Returns false if a slot has already been returned. If the store does not
    /// respond, the slots count as renewed.
    pub(crate) async fn renew(&self, source: Source, slots: &[Charge<'_>]) -> bool {
        match self.holder_of(source) {
            Some(shared) => renew(shared.store(), slots).await,
            None => renew(&self.memory, slots).await,
        }
    }

    /// Returns held slots to their limits. The result is false if all of them were returned already.
    pub(crate) async fn release(&self, source: Source, slots: &[Charge<'_>]) -> bool {
        match self.holder_of(source) {
            Some(shared) => release(shared.store(), slots).await,
            None => release(&self.memory, slots).await,
        }
    }

    /// Returns a held slot to its limit in the background.
    pub(crate) fn release_soon(&self, source: Source, slot: &Charge<'_>) {
        match self.holder_of(source) {
            Some(shared) => shared.release_soon(slot),
            None => drop(self.memory.release_now(slot)),
        }
    }

    /// Returns the shared store, if it is the one that settled charges with this source.
    fn holder_of(&self, source: Source) -> Option<&Shared> {
        self.shared.as_ref().filter(|_| source == Source::Shared)
    }

    /// Clears the cache of recent denials, because the rules have changed.
    pub(crate) fn forget_denials(&self) {
        if let Some(shared) = &self.shared {
            shared.forget_denials();
        }
    }
}

async fn renew(store: &impl Store, slots: &[Charge<'_>]) -> bool {
    let mut all = true;
    for slot in slots {
        all &= store.renew(slot).await.unwrap_or(true);
    }
    all
}

/// Releases slots. A slot whose release is lost is returned after its timeout.
async fn release(store: &impl Store, slots: &[Charge<'_>]) -> bool {
    let mut any = false;
    for slot in slots {
        any |= store.release(slot).await.unwrap_or(false);
    }
    any
}
