//! Slots of concurrency limits, held by a guard.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Key, Limit};
#[cfg(feature = "redis")]
use tidegate_stores::Store as _;
use tidegate_stores::{Charge, Verdicts};

use crate::decide::{Charges, Intent, Scope, charges, conclude, plan};
use crate::decision::Decision;
use crate::limiter::{Inner, Limiter};
#[cfg(feature = "remote")]
use crate::remote::permits::RemotePermit;
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
    lease: Lease,
    slots: SmallVec<[Slot; 2]>,
    /// Whether they are of the store that nodes share, or of memory.
    #[cfg(feature = "redis")]
    shared: bool,
    /// What the remote service knows them by, if they are its own.
    #[cfg(feature = "remote")]
    remote: Option<RemotePermit>,
}

/// Who holds the slots of a permit that no guard looks after: see [`Permit::detach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease(pub u64);

/// The limit is kept by value: rules may change while the slot is held.
struct Slot {
    key: Key,
    limit: Limit,
    lease: u64,
    part: u64,
}

/// Each slot of a permit has a lease of its own, for two may be of the same limit.
const LEASES_PER_PERMIT: u64 = 1 << 20;

#[cfg_attr(
    not(any(feature = "redis", feature = "remote")),
    expect(clippy::unused_async, reason = "the memory store never waits; stores across a network do")
)]
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
        #[cfg(feature = "remote")]
        if let Some(service) = &self.inner.remote {
            return self.acquire_remote(service, request, self.inner.new_lease()).await;
        }
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.inner.shared {
            return self.inner.acquire_shared(shared, request, self.inner.new_lease()).await;
        }
        self.acquire_now(request)
    }

    /// As [`Limiter::acquire`], without an await.
    pub fn acquire_now(&self, request: &Request<'_>) -> Acquired {
        let lease = self.inner.new_lease();
        let rules = self.inner.rules.load();
        let mut denied = Decision::under(rules);
        denied.allowed = false;
        let mut charges = Charges::new();
        let scope = Scope::Holders { lease };
        denied.domain = plan(&denied.under.rules, request, scope, &mut charges, &mut denied.items);
        // Slots are never usual: their state is large.
        let mut verdicts = Verdicts::new();
        self.inner.store.settle_any(&charges, Intent::Take, &mut verdicts);
        if conclude(&charges, &verdicts, &mut denied.items) {
            return Acquired::Permit(Permit::new(&self.inner, Lease(lease), &charges));
        }
        // The charges borrow the rules, which the decision takes along.
        drop(charges);
        Acquired::Denied(denied)
    }

    /// Starts the time-out of a detached permit's slots anew. The request is the one they were
    /// acquired for. False if a slot has returned already, or the rules limit no holders any more.
    pub async fn renew(&self, request: &Request<'_>, lease: Lease) -> bool {
        #[cfg(feature = "remote")]
        if let Some(service) = &self.inner.remote
            && let Some(kept) = service.renew_detached(lease).await
        {
            return kept;
        }
        let here = self.renew_now(request, lease);
        #[cfg(feature = "redis")]
        if let (false, Some(shared)) = (here, &self.inner.shared) {
            return self.inner.renew_shared(shared, request, lease).await;
        }
        here
    }

    /// As [`Limiter::renew`], without an await.
    pub fn renew_now(&self, request: &Request<'_>, lease: Lease) -> bool {
        let rules = self.inner.rules.load();
        let slots = charges(&rules, request, Scope::Holders { lease: lease.0 });
        !slots.is_empty() && slots.iter().all(|slot| self.inner.store.renew_now(slot))
    }

    /// Returns the slots of a detached permit. The request is the one they were acquired for. False
    /// if they have returned already.
    pub async fn release(&self, request: &Request<'_>, lease: Lease) -> bool {
        #[cfg(feature = "remote")]
        if let Some(service) = &self.inner.remote
            && let Some(released) = service.release_detached(lease).await
        {
            return released;
        }
        let here = self.release_now(request, lease);
        #[cfg(feature = "redis")]
        if let (false, Some(shared)) = (here, &self.inner.shared) {
            return self.inner.release_shared(shared, request, lease).await;
        }
        here
    }

    /// As [`Limiter::release`], without an await.
    pub fn release_now(&self, request: &Request<'_>, lease: Lease) -> bool {
        let rules = self.inner.rules.load();
        let slots = charges(&rules, request, Scope::Holders { lease: lease.0 });
        // Every one of them is returned, not only the first that is held.
        slots.iter().filter(|slot| self.inner.store.release_now(slot)).count() > 0
    }

    /// How long the slots of a request are held without renewal, by the rules in force; `None` if no
    /// concurrency limit applies.
    pub fn permit_timeout(&self, request: &Request<'_>) -> Option<Duration> {
        let rules = self.inner.rules.load();
        let slots = charges(&rules, request, Scope::Holders { lease: 0 });
        slots.iter().map(|slot| slot.limit.period_us()).min().map(Duration::from_micros)
    }
}

impl Inner {
    /// A lease that nobody holds, with room for as many as a permit has slots.
    fn new_lease(&self) -> u64 {
        let number = self.leases.fetch_add(1, Ordering::Relaxed);
        self.lease_secret.hash_one(number) & !(LEASES_PER_PERMIT - 1)
    }
}

impl Permit {
    pub(crate) fn new(limiter: &Arc<Inner>, lease: Lease, charges: &[Charge<'_>]) -> Self {
        let slot = |charge: &Charge<'_>| {
            let Charge { key, lease, part, .. } = *charge;
            Slot { key, limit: charge.limit.clone(), lease, part }
        };
        let slots = charges.iter().map(slot).collect();
        Self {
            limiter: Arc::clone(limiter),
            lease,
            slots,
            #[cfg(feature = "redis")]
            shared: false,
            #[cfg(feature = "remote")]
            remote: None,
        }
    }

    /// The same of a remote service.
    #[cfg(feature = "remote")]
    pub(crate) fn remote(limiter: &Arc<Inner>, lease: Lease, remote: RemotePermit) -> Self {
        let mut permit = Self::new(limiter, lease, &[]);
        permit.remote = Some(remote);
        permit
    }

    /// The same of the store that nodes share.
    #[cfg(feature = "redis")]
    pub(crate) fn shared(limiter: &Arc<Inner>, lease: Lease, charges: &[Charge<'_>]) -> Self {
        let mut permit = Self::new(limiter, lease, charges);
        permit.shared = true;
        permit
    }

    /// How long the slots are held without renewal; `None` if no concurrency limit applied.
    pub fn timeout(&self) -> Option<Duration> {
        #[cfg(feature = "remote")]
        if let Some(remote) = &self.remote {
            return remote.timeout;
        }
        self.slots.iter().map(|slot| slot.limit.period_us()).min().map(Duration::from_micros)
    }

    /// Lets go of the guard without returning the slots, for a holder elsewhere. They return when
    /// [`Limiter::release`](crate::Limiter::release) is called with this lease, or after the time-out.
    #[must_use = "without its lease a detached permit returns only after the time-out"]
    pub fn detach(mut self) -> Lease {
        self.slots.clear();
        #[cfg(feature = "remote")]
        if let (Some(remote), Some(service)) = (self.remote.take(), &self.limiter.remote) {
            service.keep_detached(self.lease, remote);
        }
        self.lease
    }

    /// Starts the time-out anew, for work that takes longer than it. False if a slot has returned
    /// already, and somebody else may have it. A shared store that cannot say counts as if it had.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    #[cfg_attr(
        not(any(feature = "redis", feature = "remote")),
        expect(clippy::unused_async, reason = "memory never waits")
    )]
    pub async fn renew(&self) -> bool {
        #[cfg(feature = "remote")]
        if let (Some(remote), Some(service)) = (&self.remote, &self.limiter.remote) {
            return service.renew(remote).await;
        }
        #[cfg(feature = "redis")]
        if let (true, Some(shared)) = (self.shared, &self.limiter.shared) {
            let mut all = true;
            for slot in &self.slots {
                all &= shared.store.renew(&slot.charge()).await.unwrap_or(true);
            }
            return all;
        }
        self.renew_now()
    }

    /// As [`Permit::renew`], without an await, for slots of memory.
    #[must_use = "a permit that could not be renewed does not hold its slots any more"]
    pub fn renew_now(&self) -> bool {
        self.slots.iter().all(|slot| self.limiter.store.renew_now(&slot.charge()))
    }
}

impl Slot {
    fn charge(&self) -> Charge<'_> {
        Charge { lease: self.lease, part: self.part, ..Charge::new(self.key, &self.limit, 1) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        #[cfg(feature = "remote")]
        if let (Some(remote), Some(service)) = (self.remote.take(), &self.limiter.remote) {
            service.release_soon(remote);
        }
        #[cfg(feature = "redis")]
        if let (true, Some(shared)) = (self.shared, &self.limiter.shared) {
            self.slots.iter().for_each(|slot| shared.store.release_soon(&slot.charge()));
            return;
        }
        for slot in &self.slots {
            self.limiter.store.release_now(&slot.charge());
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}
