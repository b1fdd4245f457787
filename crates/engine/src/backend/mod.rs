//! Where the charges of a plan are settled: the one seam between the engine and its stores.
//!
//! [`Backend`] lists what a backend does. Counters are in this process ([`MemoryStore`]) or in a store that many
//! nodes share ([`shared`]), which is wrapped by what the rules say for when it fails (`fallback`). This file is
//! the only one that knows which stores were compiled in.

#[cfg(not(feature = "redis"))]
#[path = "absent.rs"]
pub(crate) mod shared;
#[cfg(feature = "redis")]
pub(crate) mod shared;

#[cfg(feature = "redis")]
mod fallback;

#[cfg(feature = "redis")]
pub use self::fallback::Fallback;
pub(crate) use self::shared::Shared;
#[cfg(feature = "redis")]
pub use self::shared::StoreHealth;

use tidegate_stores::{Charge, Corrected, Correction, Intent, MemoryStore, StoreError, Verdicts};

use crate::decision::Source;
use crate::plan::{Charges, Plan, Scope};
use crate::request::Request;
use crate::rules::tree::RuleSet;

/// Settles what plans charge.
pub(crate) struct Backend {
    /// The counters of this process; where nodes share a store, for when that fails.
    pub(crate) memory: MemoryStore,
    /// The store that nodes share, if they do.
    shared: Option<Shared>,
}

/// What a backend made of a plan's charges.
pub(crate) struct Settlement {
    /// One per charge.
    pub(crate) verdicts: Verdicts,
    /// Who settled them.
    pub(crate) source: Source,
}

impl Settlement {
    #[inline]
    pub(crate) fn of_memory(memory: &MemoryStore, charges: &[Charge<'_>], intent: Intent) -> Self {
        let mut verdicts = Verdicts::new();
        memory.settle_now(charges, intent, &mut verdicts);
        Self { verdicts, source: Source::Memory }
    }
}

impl Backend {
    pub(crate) fn new(memory: MemoryStore, shared: Option<Shared>) -> Self {
        Self { memory, shared }
    }

    /// The store that nodes share, if they do.
    #[inline]
    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// Plans a request, with its charges placed as this backend needs them.
    pub(crate) fn plan<'r>(&self, rules: &'r RuleSet, request: &'r Request<'_>, scope: Scope) -> Plan<'r> {
        let mut plan = Plan::new(rules, request, scope);
        if self.shared.is_some() {
            plan.keep_together(request);
        }
        plan
    }

    /// Settles a plan at once, where no other process has to be asked; else returns `None`.
    pub(crate) fn try_now(&self, plan: &Plan<'_>, intent: Intent) -> Option<Settlement> {
        self.shared.is_none().then(|| Settlement::of_memory(&self.memory, &plan.charges, intent))
    }

    /// Settles a plan: takes every charge or none. While the shared store fails, each rule's `on_store_error`
    /// decides.
    pub(crate) async fn settle(&self, plan: &Plan<'_>, intent: Intent) -> Settlement {
        match &self.shared {
            Some(shared) => shared.settle(&self.memory, plan, intent).await,
            None => Settlement::of_memory(&self.memory, &plan.charges, intent),
        }
    }

    /// Returns what charges would find, taking none of them. While the shared store fails, this node's memory
    /// tells.
    pub(crate) async fn look(&self, charges: &[Charge<'_>]) -> (Verdicts, Source) {
        if let Some(shared) = &self.shared
            && let Ok(verdicts) = shared.look(charges).await
        {
            return (verdicts, Source::Shared);
        }
        (Settlement::of_memory(&self.memory, charges, Intent::Look).verdicts, Source::Memory)
    }

    /// Corrects charges that were taken before, where they were taken: each for itself.
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
            match shared.give_back(charges).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "a refund was lost"),
            }
        }
        self.memory.give_back_now(charges);
    }

    /// As [`Backend::give_back`], both in the shared store and in this process.
    pub(crate) async fn give_back_everywhere(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.memory.give_back_now(charges);
        match &self.shared {
            Some(shared) => shared.give_back(charges).await,
            None => Ok(()),
        }
    }

    /// Gives charges back without waiting until that is done.
    pub(crate) fn give_back_soon(&self, charges: &Charges<'_>) {
        match &self.shared {
            Some(shared) => shared.give_back_soon(charges),
            None => self.memory.give_back_now(charges),
        }
    }

    /// Starts the time-outs of held slots anew. Returns false if one of them has returned already. A store that
    /// cannot say counts as if it had renewed.
    pub(crate) async fn renew(&self, source: Source, slots: &[Charge<'_>]) -> bool {
        match self.holder_of(source) {
            Some(shared) => shared.renew(slots).await,
            None => slots.iter().all(|slot| self.memory.renew_now(slot)),
        }
    }

    /// Returns held slots to their limits. Returns false if all of them have returned already.
    pub(crate) async fn release(&self, source: Source, slots: &[Charge<'_>]) -> bool {
        match self.holder_of(source) {
            Some(shared) => shared.release(slots).await,
            // Every one of them is returned, not only the first that is held.
            None => slots.iter().filter(|slot| self.memory.release_now(slot)).count() > 0,
        }
    }

    /// Returns a held slot to its limit without waiting until that is done.
    pub(crate) fn release_soon(&self, source: Source, slot: &Charge<'_>) {
        match self.holder_of(source) {
            Some(shared) => shared.release_soon(slot),
            None => drop(self.memory.release_now(slot)),
        }
    }

    /// The shared store, if it settled what `source` says.
    fn holder_of(&self, source: Source) -> Option<&Shared> {
        self.shared.as_ref().filter(|_| source == Source::Shared)
    }

    /// Forgets which requests were denied a moment ago, because other rules are in force.
    pub(crate) fn forget_denials(&self) {
        if let Some(shared) = &self.shared {
            shared.forget_denials();
        }
    }
}
