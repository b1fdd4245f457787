//! Slots of concurrency limits, held by a guard.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Key, Limit};
use tidegate_stores::{Charge, Intent};

use crate::backend::Settlement;
use crate::counts::RuleCounts;
use crate::decision::{Decision, Source};
use crate::limiter::{Inner, Limiter};
use crate::plan::{Plan, Scope};
use crate::request::Request;

/// What became of an acquisition.
#[derive(Debug)]
pub enum Acquired {
    /// The slots, until the permit is dropped.
    Permit(Permit),
    /// Too many hold one already.
    Denied(Decision),
}

impl Acquired {
    /// The permit, or `None` if it was denied.
    pub fn permit(self) -> Option<Permit> {
        match self {
            Self::Permit(permit) => Some(permit),
            Self::Denied(_) => None,
        }
    }
}

/// Slots of one or more concurrency limits. Dropping the permit returns them; if the process dies
/// first, they return after the limit's time-out.
#[must_use = "dropping a permit returns its slots"]
pub struct Permit {
    limiter: Arc<Inner>,
    id: SlotId,
    slots: SmallVec<[Slot; 2]>,
    /// Where they were taken.
    source: Source,
}

/// ID of the slots of a permit that no guard looks after: see [`Permit::detach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(pub u64);

/// The limit is kept by value: rules may change while the slot is held.
struct Slot {
    key: Key,
    limit: Limit,
    id: u64,
    part: u64,
    cost: u64,
    /// The counters of the rule that the slot belongs to.
    counts: Arc<RuleCounts>,
}

/// Each slot of a permit has an ID of its own, because two may be of the same limit.
const IDS_PER_PERMIT: u64 = 1 << 20;

impl Limiter {
    /// Takes a slot of each concurrency limit the request falls under, or none. The permit returns
    /// them when it is dropped.
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
        let rules = self.inner.rules.load();
        let plan = self.inner.backend.plan(&rules, request, Scope::Holders { slot: id.0 });
        let settlement = self.inner.backend.settle(&plan, Intent::Take).await;
        if plan.passes(&settlement.verdicts) {
            return Acquired::Permit(Permit::new(&self.inner, id, &plan, settlement.source));
        }
        let concluded = plan.conclude(settlement);
        Acquired::Denied(Decision::concluded(rules, concluded, request))
    }

    /// As [`Limiter::acquire`], without an await and in this process alone.
    pub fn acquire_now(&self, request: &Request<'_>) -> Acquired {
        let id = self.inner.new_slot_id();
        let rules = self.inner.rules.load();
        let plan = Plan::new(&rules, request, Scope::Holders { slot: id.0 });
        let settlement = Settlement::of_memory(&self.inner.backend.memory, &plan.charges, Intent::Take);
        if plan.passes(&settlement.verdicts) {
            return Acquired::Permit(Permit::new(&self.inner, id, &plan, settlement.source));
        }
        let concluded = plan.conclude(settlement);
        Acquired::Denied(Decision::concluded(rules, concluded, request))
    }

    /// Starts the time-out of a detached permit's slots anew. The request is the one they were
    /// acquired for. False if a slot has returned already, or the rules limit no holders any more.
    pub async fn renew(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let rules = self.inner.rules.load();
        let slots = self.inner.backend.plan(&rules, request, Scope::Holders { slot: slot.0 }).charges;
        // Those that were taken while the shared store failed are in memory.
        !slots.is_empty()
            && (self.inner.backend.renew(Source::Memory, &slots).await
                || self.is_shared() && self.inner.backend.renew(Source::Shared, &slots).await)
    }

    /// As [`Limiter::renew`], without an await and in this process alone.
    pub fn renew_now(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let rules = self.inner.rules.load();
        let slots = Plan::new(&rules, request, Scope::Holders { slot: slot.0 }).charges;
        !slots.is_empty() && slots.iter().all(|slot| self.inner.backend.memory.renew_now(slot))
    }

    /// Returns the slots of a detached permit. The request is the one they were acquired for. False
    /// if they have returned already.
    pub async fn release(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let rules = self.inner.rules.load();
        let slots = self.inner.backend.plan(&rules, request, Scope::Holders { slot: slot.0 }).charges;
        self.inner.backend.release(Source::Memory, &slots).await
            || self.is_shared() && self.inner.backend.release(Source::Shared, &slots).await
    }

    /// As [`Limiter::release`], without an await and in this process alone.
    pub fn release_now(&self, request: &Request<'_>, slot: SlotId) -> bool {
        let rules = self.inner.rules.load();
        let slots = Plan::new(&rules, request, Scope::Holders { slot: slot.0 }).charges;
        // Every one of them is returned, not only the first that is held.
        slots.iter().filter(|slot| self.inner.backend.memory.release_now(slot)).count() > 0
    }

    /// How long the slots of a request are held without renewal, by the rules in force; `None` if no
    /// concurrency limit applies.
    pub fn permit_timeout(&self, request: &Request<'_>) -> Option<Duration> {
        let rules = self.inner.rules.load();
        let slots = Plan::new(&rules, request, Scope::Holders { slot: 0 }).charges;
        slots.iter().map(|slot| slot.limit.period_us()).min().map(Duration::from_micros)
    }
}

impl Inner {
    /// An ID that nobody holds, with room after it for as many as a permit has slots.
    fn new_slot_id(&self) -> SlotId {
        let number = self.permits.fetch_add(1, Ordering::Relaxed);
        SlotId(self.slot_secret.hash_one(number) & !(IDS_PER_PERMIT - 1))
    }
}

impl Permit {
    /// A permit of the slots that a plan took.
    fn new(limiter: &Arc<Inner>, id: SlotId, plan: &Plan<'_>, source: Source) -> Self {
        let slots = plan.charges.iter().enumerate().map(|(index, charge)| {
            let Charge { key, limit, lease, part, cost, .. } = *charge;
            let counts = plan.counts(index);
            Slot { key, limit: limit.clone(), id: lease, part, cost, counts }
        });
        Self { limiter: Arc::clone(limiter), id, slots: slots.collect(), source }
    }

    /// Counts the acquisition for [`Limiter::counts`].
    pub(crate) fn count(&self) {
        self.slots.iter().for_each(|slot| slot.counts.count_slots(slot.cost));
    }

    /// How long the slots are held without renewal; `None` if no concurrency limit applied.
    pub fn timeout(&self) -> Option<Duration> {
        self.slots.iter().map(|slot| slot.limit.period_us()).min().map(Duration::from_micros)
    }

    /// Lets go of the guard without returning the slots, for a holder elsewhere. They return when
    /// [`Limiter::release`](crate::Limiter::release) is called with this ID, or after the time-out.
    #[must_use = "without its ID a detached permit returns only after the time-out"]
    pub fn detach(mut self) -> SlotId {
        self.slots.clear();
        self.id
    }

    /// Starts the time-out anew, for work that takes longer than it. False if a slot has returned
    /// already, and somebody else may have it. A shared store that cannot say counts as if it had.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    pub async fn renew(&self) -> bool {
        let slots: SmallVec<[Charge<'_>; 2]> = self.slots.iter().map(Slot::charge).collect();
        self.limiter.backend.renew(self.source, &slots).await
    }

    /// As [`Permit::renew`], without an await, for slots of this process.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    pub fn renew_now(&self) -> bool {
        self.slots.iter().all(|slot| self.limiter.backend.memory.renew_now(&slot.charge()))
    }
}

impl Slot {
    fn charge(&self) -> Charge<'_> {
        Charge { lease: self.id, part: self.part, ..Charge::new(self.key, &self.limit, 1) }
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
