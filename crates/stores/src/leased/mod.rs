//! Leases over a shared store: a node takes units in chunks, spends them in memory, and returns what is left.
//!
//! A request is first tried with the units that this node holds ([`LeasedStore::try_now`]), which needs no call and
//! no waiting. If any of its charges is not covered, all of them are settled in the shared store in one call, exactly
//! as without leases. [`LeasedStore::tend`] takes units ahead of need and returns units whose time is over; the owner
//! of the store must call it in a loop, such as [`LeasedStore::keep_tending`].
//!
//! [`tidegate_core::lease`] defines leased units, and explains why nodes together never admit more than the limit.
//! All charges of a key must go through leased stores with the same [`LeaseConfig::longest`]: a token bucket is kept
//! a little smaller in the shared store.
//!
//! # Layout
//!
//! - [`cells`]: the leases of this node, in shards
//! - [`terms`]: the terms of limits, each stored once
//! - [`tend`]: renewals and returns
//! - [`ledger`]: accounts for every unit

mod cells;
mod ledger;
mod tend;
mod terms;

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::lease::{Mark, Terms};
use tidegate_core::{Clock, Micros};

pub use self::ledger::Ledger;

use self::cells::Cells;
use self::ledger::Counts;
use self::terms::TermsTable;
use crate::charge::blocked;
use crate::charge::{Charge, Corrected, Correction, Force, Grant, Intent, Timed, VerdictSink, Verdicts};
use crate::{Store, StoreError};

/// The settings of a [`LeasedStore`].
#[derive(Clone)]
pub struct LeaseConfig {
    /// The longest time for which units are held; short windows and small buckets shorten it. All nodes must use the
    /// same value.
    pub longest: Duration,
    /// Maximum number of leased keys. Further keys are settled in the shared store.
    pub max_keys: usize,
    /// The clock of this node. It may be ahead or behind, and must not run backwards.
    pub clock: Arc<dyn Clock>,
}

impl LeaseConfig {
    /// Returns the default settings: one second, a million keys.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { longest: Duration::from_secs(1), max_keys: 1_000_000, clock }
    }
}

/// Leases over a store that many nodes share.
pub struct LeasedStore<S> {
    shared: S,
    cells: Cells,
    terms: TermsTable,
    clock: Arc<dyn Clock>,
    counts: Counts,
    tending: tend::Signal,
}

/// The terms of a charge's limit, or `None` if it cannot be leased.
type ChargeTerms = Option<Arc<Terms>>;

impl<S: Store> LeasedStore<S> {
    /// Creates a store that holds no leases yet.
    pub fn new(shared: S, config: LeaseConfig) -> Self {
        let longest_us = u64::try_from(config.longest.as_micros()).unwrap_or(u64::MAX);
        Self {
            shared,
            cells: Cells::new(config.max_keys),
            terms: TermsTable::new(longest_us),
            clock: config.clock,
            counts: Counts::default(),
            tending: tend::Signal::default(),
        }
    }

    /// Returns the shared store.
    pub fn shared(&self) -> &S {
        &self.shared
    }

    /// Returns what happened to the units that this node was granted.
    pub fn ledger(&self) -> Ledger {
        Ledger { held: self.cells.held(), ..self.counts.read() }
    }

    /// Returns how many keys have a lease or are being watched for one.
    pub fn keys(&self) -> usize {
        self.cells.len()
    }

    fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Takes all charges from the units that this node holds, without waiting, and writes the verdicts. Returns
    /// false, and takes nothing, if any charge is not covered: then the request must be settled in the shared store.
    /// A return of false is not a denial.
    pub fn try_now(&self, charges: &[Charge<'_>], intent: Intent, verdicts: &mut impl VerdictSink) -> bool {
        if intent == Intent::Look || charges.is_empty() {
            return false;
        }
        let mut spent = SmallVec::<[Mark; 4]>::new();
        for (index, charge) in charges.iter().enumerate() {
            let found = if charge.force == Force::Quota { None } else { self.spend(charge) };
            let Some((verdict, mark)) = found else {
                self.undo(&charges[..index], &spent);
                return false;
            };
            *verdicts.verdict_mut(index) = verdict;
            spent.push(mark);
        }
        let units = charges.iter().map(|charge| charge.cost).sum();
        self.counts.spent(units);
        true
    }

    /// Spends one charge, and schedules a renewal of its lease if needed.
    fn spend(&self, charge: &Charge<'_>) -> Option<(tidegate_core::Verdict, Mark)> {
        let mut shard = self.cells.shard(charge.key);
        let cell = shard.get_mut(charge.key)?;
        if cell.terms.limit() != charge.limit {
            // The limit has changed (an override, a tier, other rules), so units taken under the old one are
            // returned.
            shard.recall(charge.key);
            self.tending.notify();
            return None;
        }
        // The time is read under the lock, so that a thread that was suspended does not spend by an old time.
        let now = self.clock.now();
        let spent = cell.lease.spend(charge.cost, now);
        let renewal = cell.lease.renewal(&cell.terms, now);
        if let Some(units) = renewal {
            shard.renew(charge.key, units);
            self.tending.notify();
        }
        spent
    }

    /// Undoes the spending for a request that is not covered as a whole.
    fn undo(&self, charges: &[Charge<'_>], spent: &[Mark]) {
        for (charge, mark) in charges.iter().zip(spent) {
            let mut shard = self.cells.shard(charge.key);
            let undone = shard.get_mut(charge.key).is_some_and(|cell| cell.lease.unspend(charge.cost, *mark));
            if !undone {
                self.counts.expired(charge.cost);
            }
        }
    }

    /// Returns all units of these counters to the shared store, because their limits have changed or were reset.
    pub async fn recall(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            self.cells.shard(charge.key).recall(charge.key);
        }
        self.tend().await;
    }

    /// Returns all units of all counters to the shared store, because the rules have changed or this node shuts down.
    pub async fn recall_all(&self) {
        self.cells.recall_all();
        self.tend().await;
    }

    /// Returns the terms of each charge's limit.
    fn terms_of(&self, charges: &[Charge<'_>]) -> SmallVec<[ChargeTerms; 4]> {
        charges.iter().map(|charge| self.terms.of(charge.limit)).collect()
    }

    /// Records the verdicts of the shared store, and schedules renewals.
    fn observe(&self, charges: &[Charge<'_>], terms: &[ChargeTerms], verdicts: &Verdicts) {
        let taken = !blocked(charges, verdicts);
        let mut renews = false;
        for ((charge, terms), verdict) in charges.iter().zip(terms).zip(verdicts) {
            let Some(terms) = terms.as_ref().filter(|terms| terms.longest_us() > 0 && charge.cost > 0) else {
                continue;
            };
            let mut shard = self.cells.shard(charge.key);
            let Some(cell) = shard.get_or_insert(charge, terms) else { continue };
            let now = self.clock.now();
            cell.lease.observe(if taken && verdict.allowed() { charge.cost } else { 0 }, verdict, now);
            if let Some(units) = cell.lease.renewal(terms, now) {
                shard.renew(charge.key, units);
                renews = true;
            }
        }
        if renews {
            self.tending.notify();
        }
    }

    /// Returns whether this node holds units of a denied charge.
    fn parks(&self, charges: &[Charge<'_>], verdicts: &Verdicts) -> bool {
        charges.iter().zip(verdicts).any(|(charge, verdict)| {
            let held =
                || self.cells.shard(charge.key).get_mut(charge.key).map_or(0, |cell| cell.lease.units());
            !verdict.allowed() && held() > 0
        })
    }
}

/// Returns the charges with the limits that apply in the shared store.
fn in_shared<'a>(charges: &[Charge<'a>], terms: &'a [ChargeTerms]) -> SmallVec<[Charge<'a>; 4]> {
    let shared = |(charge, terms): (&Charge<'a>, &'a ChargeTerms)| Charge {
        limit: terms.as_ref().map_or(charge.limit, |terms| terms.shared()),
        ..*charge
    };
    charges.iter().zip(terms).map(shared).collect()
}

impl<S: Store> Store for LeasedStore<S> {
    async fn settle(&self, charges: &[Charge<'_>], intent: Intent) -> Result<Verdicts, StoreError> {
        let mut verdicts = Verdicts::new();
        if self.try_now(charges, intent, &mut verdicts) {
            return Ok(verdicts);
        }
        let terms = self.terms_of(charges);
        let shared = in_shared(charges, &terms);
        let mut verdicts = self.shared.settle(&shared, intent).await?;
        if intent == Intent::Look {
            for (charge, verdict) in charges.iter().zip(&mut verdicts) {
                let held =
                    self.cells.shard(charge.key).get_mut(charge.key).map_or(0, |cell| cell.lease.units());
                verdict.remaining = verdict.remaining.saturating_add(held).min(charge.limit.burst());
            }
            return Ok(verdicts);
        }
        if blocked(charges, &verdicts) && self.parks(charges, &verdicts) {
            // The missing units may be held by this node: return them first, then ask once more.
            self.recall(charges).await;
            verdicts = self.shared.settle(&shared, intent).await?;
        }
        self.observe(charges, &terms, &verdicts);
        Ok(verdicts)
    }

    async fn settle_timed(&self, charges: &[Charge<'_>]) -> Result<Timed, StoreError> {
        let terms = self.terms_of(charges);
        let timed = self.shared.settle_timed(&in_shared(charges, &terms)).await?;
        self.observe(charges, &terms, &timed.verdicts);
        Ok(timed)
    }

    async fn take_up_to(&self, charge: &Charge<'_>) -> Result<Grant, StoreError> {
        let terms = [self.terms.of(charge.limit)];
        let shared = in_shared(std::slice::from_ref(charge), &terms);
        self.shared.take_up_to(&shared[0]).await
    }

    async fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> Corrected {
        let charges: SmallVec<[Charge<'_>; 4]> = corrections.iter().map(|(charge, _)| *charge).collect();
        let terms = self.terms_of(&charges);
        let hows = corrections.iter().map(|(_, correction)| *correction);
        let shared: SmallVec<[_; 4]> = in_shared(&charges, &terms).into_iter().zip(hows).collect();
        self.shared.correct(&shared).await
    }

    async fn give_back(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let terms = self.terms_of(charges);
        self.shared.give_back(&in_shared(charges, &terms)).await
    }

    async fn renew(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.shared.renew(slot).await
    }

    async fn release(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.shared.release(slot).await
    }
}
