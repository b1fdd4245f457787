//! Permits: slots of concurrency limits, held by a guard.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::Key;
use tidegate_stores::{Charge, Intent};

use crate::counts::RuleCounts;
use crate::decision::{Charged, Decision, Source};
use crate::limiter::{Inner, Limiter};
use crate::plan::{Plan, Scope};
use crate::request::Request;
use crate::rules::tree::LimitEntry;

/// The result of acquiring slots.
#[derive(Debug)]
pub enum Acquired {
    /// The slots are held until the permit is dropped.
    Permit(Permit),
    /// No slot is free.
    Denied(Decision),
}

impl Acquired {
    /// Returns the permit, or `None` if the acquisition was denied.
    pub fn permit(self) -> Option<Permit> {
        match self {
            Self::Permit(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }
}

/// Slots of one or more concurrency limits. Dropping the permit releases them. If the process dies
/// first, they become free after the limit's timeout.
#[must_use = "dropping a permit returns its slots"]
pub struct Permit {
    limiter: Arc<Inner>,
    id: SlotId,
    slots: SmallVec<[Slot; 2]>,
    /// The store that has the counters of the slots.
    source: Source,
}

/// The ID of the slots of a detached permit; see [`Permit::detach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(pub u64);

/// A slot that is held.
struct Slot {
    key: Key,
    limit: Arc<LimitEntry>,
    id: u64,
    partition: u64,
    cost: u64,
    /// The counters of the rule that the slot belongs to.
    counts: Arc<RuleCounts>,
}

/// Each slot of a permit has an ID of its own, because two may be of the same limit.
const IDS_PER_PERMIT: u64 = 1 << 20;

impl Limiter {
    /// Takes a slot of each concurrency limit of the request, or none if one of them is full. The slots are returned
    /// when the permit is dropped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Acquired, Domain, Limiter, Request, Rule};
    /// let exports = Domain::new("exports").rule(Rule::by("user").concurrency(2, Duration::from_secs(60)));
    /// let limiter = Limiter::builder().domain(exports).build()?;
    /// let request = Request::new("exports", [("user", "ann")]);
    /// match limiter.acquire_now(&request) {
    ///     Acquired::Permit(permit) => drop(permit), // after the work
    ///     Acquired::Denied(decision) => println!("{decision}"),
    /// }
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub async fn acquire(&self, request: &Request<'_>) -> Acquired {
        let id = self.inner.new_slot_id();
        let mut charged = Charged::new(self.inner.rules.load());
        let mut plan = self.inner.backend.plan(&mut charged, request, Scope::Holders { slot: id.0 });
        self.inner.backend.settle(&mut plan, Intent::Take).await;
        if plan.allowed() {
            return Acquired::Permit(Permit::new(&self.inner, id, &plan));
        }
        drop(plan);
        Acquired::Denied(charged.into())
    }

    /// Acquires slots as [`Limiter::acquire`] does, without an await and in this process alone.
    pub fn acquire_now(&self, request: &Request<'_>) -> Acquired {
        let id = self.inner.new_slot_id();
        let mut charged = Charged::new(self.inner.rules.load());
        let mut plan = Plan::empty(&mut charged, request, Scope::Holders { slot: id.0 });
        plan.find(request);
        plan.settle_in(&self.inner.backend.memory, Intent::Take);
        if plan.allowed() {
            return Acquired::Permit(Permit::new(&self.inner, id, &plan));
        }
        drop(plan);
        Acquired::Denied(charged.into())
    }

    /// Restarts the timeout of a detached permit's slots. The request must be the one that they were acquired
    /// for. Returns false if a slot is not held any more, or if the rules have no concurrency limit any more.
    pub async fn renew(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let mut charged = Charged::new(self.inner.rules.load());
        let slots = self.inner.backend.plan(&mut charged, request, Scope::Holders { slot: slot.0 }).charges;
        // Slots that were taken while the shared store failed are in memory.
        !slots.is_empty()
            && (self.inner.backend.renew(Source::Memory, &slots).await
                || self.is_shared() && self.inner.backend.renew(Source::Shared, &slots).await)
    }

    /// Renews slots as [`Limiter::renew`] does, without an await and in this process alone.
    pub fn renew_now(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let mut charged = Charged::new(self.inner.rules.load());
        let slots = Plan::new(&mut charged, request, Scope::Holders { slot: slot.0 }).charges;
        !slots.is_empty() && slots.iter().all(|slot| self.inner.backend.memory.renew_now(slot))
    }

    /// Releases the slots of a detached permit. The request must be the one that they were acquired for. Returns
    /// false if none of them is held any more.
    pub async fn release(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let mut charged = Charged::new(self.inner.rules.load());
        let slots = self.inner.backend.plan(&mut charged, request, Scope::Holders { slot: slot.0 }).charges;
        self.inner.backend.release(Source::Memory, &slots).await
            || self.is_shared() && self.inner.backend.release(Source::Shared, &slots).await
    }

    /// Releases slots as [`Limiter::release`] does, without an await and in this process alone.
    pub fn release_now(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let mut charged = Charged::new(self.inner.rules.load());
        let slots = Plan::new(&mut charged, request, Scope::Holders { slot: slot.0 }).charges;
        // Every slot is released, not only the first one that is held.
        slots.iter().filter(|slot| self.inner.backend.memory.release_now(slot)).count() > 0
    }

    /// Returns how long the slots of a request are held without renewal, by the rules in force; `None` if no
    /// concurrency limit applies.
    pub fn permit_timeout(&self, request: &Request<'_>) -> Option<Duration> {
        let mut charged = Charged::new(self.inner.rules.load());
        let slots = Plan::new(&mut charged, request, Scope::Holders { slot: 0 }).charges;
        slots.iter().map(|slot| slot.limit.period_us()).min().map(Duration::from_micros)
    }
}

impl Inner {
    /// Returns an unused ID. The IDs after it are unused as well, one for each slot of a permit.
    fn new_slot_id(&self) -> SlotId {
        let number = self.permits.fetch_add(1, Ordering::Relaxed);
        SlotId(self.slot_secret.hash_one(number) & !(IDS_PER_PERMIT - 1))
    }
}

impl Permit {
    /// Creates the permit of the slots that a plan has taken.
    fn new(limiter: &Arc<Inner>, id: SlotId, plan: &Plan<'_>) -> Self {
        let slots = plan.charges.iter().enumerate().filter_map(|(index, charge)| {
            let Charge { key, lease, partition, cost, .. } = *charge;
            let rule = plan.rule(index)?;
            let (limit, counts) = (Arc::clone(rule.concurrency.as_ref()?), Arc::clone(&rule.counts));
            Some(Slot { key, limit, id: lease, partition, cost, counts })
        });
        Self { limiter: Arc::clone(limiter), id, slots: slots.collect(), source: plan.source() }
    }

    /// Counts the acquisition for [`Limiter::counts`].
    pub(crate) fn count(&self) {
        self.slots.iter().for_each(|slot| slot.counts.count_slots(slot.cost));
    }

    /// Returns how long the slots are held without renewal; `None` if no concurrency limit applied.
    pub fn timeout(&self) -> Option<Duration> {
        self.slots.iter().map(|slot| slot.limit.limit.period_us()).min().map(Duration::from_micros)
    }

    /// Drops the guard without releasing the slots, for a holder elsewhere. They are released when
    /// [`Limiter::release`](crate::Limiter::release) is called with this ID, or after the timeout.
    #[must_use = "without its ID the slots of a detached permit are returned only after the timeout"]
    pub fn detach(mut self) -> SlotId {
        self.slots.clear();
        self.id
    }

    /// Restarts the timeout, for work that takes longer. Returns false if a slot is not held any more, so that
    /// another request may hold it. If the shared store fails, the slots count as renewed.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    pub async fn renew(&self) -> bool {
        let slots: SmallVec<[Charge<'_>; 2]> = self.slots.iter().map(Slot::charge).collect();
        self.limiter.backend.renew(self.source, &slots).await
    }

    /// Renews the slots as [`Permit::renew`] does, without an await, if they are of this process.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    pub fn renew_now(&self) -> bool {
        self.slots.iter().all(|slot| self.limiter.backend.memory.renew_now(&slot.charge()))
    }
}

impl Slot {
    fn charge(&self) -> Charge<'_> {
        Charge { lease: self.id, partition: self.partition, ..Charge::new(self.key, &self.limit.limit, 1) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for slot in &self.slots {
            self.limiter.backend.release_soon(self.source, &slot.charge());
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}
