//! Settling charges on the shards that hold their counters.

use smallvec::SmallVec;
use tidegate_core::algorithm::concurrency;
use tidegate_core::{Micros, State, Verdict};

use super::MemoryStore;
use super::cell::CellKey;
use super::counter::{self, Assessed, Usual};
use super::shard::Shard;
use crate::charge::{Charge, Intent, Verdicts, blocked};
use crate::sync::MutexGuard;

impl MemoryStore {
    /// Settles without waiting: takes every charge or none, and adds one verdict per charge.
    #[inline]
    pub fn settle_now(&self, charges: &[Charge<'_>], intent: Intent, verdicts: &mut Verdicts) {
        match charges {
            [] => {}
            [charge] => verdicts.push(self.settle_one(charge, intent)),
            _ => self.settle_many(charges, intent, verdicts),
        }
    }

    /// Settles a single charge without waiting.
    #[inline]
    pub fn settle_one(&self, charge: &Charge<'_>, intent: Intent) -> Verdict {
        let key = CellKey::of(charge.key);
        let mut shard = self.shard(key).lock();
        counter::settle(&mut shard, key, charge, intent == Intent::Take && charge.cost > 0, &*self.clock)
    }

    fn settle_many(&self, charges: &[Charge<'_>], intent: Intent, verdicts: &mut Verdicts) {
        let mut locked = Locked::new(self, charges);
        let now = self.now();
        let repeats = has_repeats(charges);
        if !repeats && settle_usual(self, &mut locked, charges, intent, now, verdicts) {
            return;
        }
        let mut all: SmallVec<[Assessed; 4]> = SmallVec::with_capacity(charges.len());
        for (index, charge) in charges.iter().enumerate() {
            let key = CellKey::of(charge.key);
            let shard = locked.shard(self, key);
            let mut assessed = counter::assess(shard, key, charge, now);
            if repeats {
                let earlier = charges[..index].iter().zip(&*verdicts);
                assessed.verdict = assess_after(shard, key, charge, earlier, now);
            }
            verdicts.push(assessed.verdict);
            all.push(assessed);
        }
        let blocked = blocked(charges, verdicts);
        let taken = |charge: &Charge<'_>, verdict: &Verdict| {
            let fits = verdict.allowed() && !blocked;
            intent == Intent::Take && charge.cost > 0 && (fits || charge.count_denied)
        };
        // Once a key was added, cells may have moved; and a repeated key's state changes.
        let mut moved = repeats;
        for ((charge, assessed), verdict) in charges.iter().zip(&all).zip(&*verdicts) {
            let key = CellKey::of(charge.key);
            let shard = locked.shard(self, key);
            let again = moved.then(|| counter::assess(shard, key, charge, now));
            let assessed = again.as_ref().unwrap_or(assessed);
            if taken(charge, verdict) {
                moved |= counter::take(shard, key, charge, assessed, now);
            } else if intent == Intent::Take && charge.cost > 0 && !assessed.verdict.allowed() {
                counter::carry_on(shard, charge, assessed);
            }
        }
        for (charge, verdict) in charges.iter().zip(verdicts) {
            let taken = taken(charge, verdict);
            let stale = blocked && (repeats || verdict.allowed());
            if stale || taken && !verdict.allowed() {
                let key = CellKey::of(charge.key);
                let shard = locked.shard(self, key);
                *verdict = counter::as_it_stands(shard, key, charge, *verdict, taken, now);
            }
        }
    }

    /// Gives each charge's cost back without waiting.
    pub fn give_back_now(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            let key = CellKey::of(charge.key);
            let mut shard = self.shard(key).lock();
            let now = self.now();
            counter::give_back(&mut shard, key, charge, now);
        }
    }

    /// Starts the time-out of a held slot anew without waiting.
    pub fn renew_now(&self, slot: &Charge<'_>) -> bool {
        let key = CellKey::of(slot.key);
        let mut shard = self.shard(key).lock();
        let now = self.now();
        let renew = |state: &mut _| concurrency::renew(slot.limit, state, slot.lease, now);
        counter::change_leases(&mut shard, key, slot, now, renew)
    }

    /// Returns a held slot without waiting.
    pub fn release_now(&self, slot: &Charge<'_>) -> bool {
        let key = CellKey::of(slot.key);
        let mut shard = self.shard(key).lock();
        let now = self.now();
        // A lease that has run out may still be written down: only one that can be renewed is held.
        let release = |state: &mut _| {
            let held = concurrency::renew(slot.limit, state, slot.lease, now);
            concurrency::release(state, slot.lease);
            held
        };
        counter::change_leases(&mut shard, key, slot, now, release)
    }
}

/// The common case: every key has a cell, and every charge fits. Answers false, having changed
/// nothing, if it is not that.
#[inline]
fn settle_usual(
    store: &MemoryStore,
    locked: &mut Locked<'_>,
    charges: &[Charge<'_>],
    intent: Intent,
    now: Micros,
    verdicts: &mut Verdicts,
) -> bool {
    let mut usual: SmallVec<[Usual; 4]> = SmallVec::new();
    for charge in charges {
        let key = CellKey::of(charge.key);
        match counter::assess_usual(locked.shard(store, key), key, charge, now) {
            Some(assessed) => usual.push(assessed),
            None => return false,
        }
    }
    for (charge, assessed) in charges.iter().zip(&usual) {
        verdicts.push(assessed.verdict);
        if intent == Intent::Take && charge.cost > 0 {
            locked.shard(store, CellKey::of(charge.key)).set(assessed.place, assessed.taken);
        }
    }
    true
}

/// The shards of several charges, locked in ascending order, so that two requests can never wait
/// for each other.
struct Locked<'a> {
    numbers: SmallVec<[usize; 4]>,
    guards: SmallVec<[MutexGuard<'a, Shard>; 4]>,
}

impl<'a> Locked<'a> {
    #[inline]
    fn new(store: &'a MemoryStore, charges: &[Charge<'_>]) -> Self {
        let mut numbers: SmallVec<[usize; 4]> =
            charges.iter().map(|charge| store.shard_number(CellKey::of(charge.key))).collect();
        // The limits of one rule share a shard, so mostly there is one.
        numbers.dedup();
        if numbers.len() > 1 {
            numbers.sort_unstable();
            numbers.dedup();
        }
        let guards = numbers.iter().map(|number| store.shards[*number].lock()).collect();
        Self { numbers, guards }
    }

    #[inline]
    fn shard(&mut self, store: &MemoryStore, key: CellKey) -> &mut Shard {
        let held = &self.numbers;
        let index =
            if held.len() == 1 { 0 } else { held.partition_point(|held| *held < store.shard_number(key)) };
        &mut self.guards[index]
    }
}

/// Whether two charges are of the same counter, as when a request repeats a descriptor.
fn has_repeats(charges: &[Charge<'_>]) -> bool {
    const FEW: usize = 16;
    if charges.len() <= FEW {
        let same = |index: usize, one: &Charge<'_>| charges[..index].iter().any(|two| two.key == one.key);
        return charges.iter().enumerate().any(|(index, charge)| same(index, charge));
    }
    let mut keys: Vec<_> = charges.iter().map(|charge| charge.key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// Assesses a charge as if the earlier ones of the same counter had been taken.
fn assess_after<'a>(
    shard: &Shard,
    key: CellKey,
    charge: &Charge<'_>,
    earlier: impl Iterator<Item = (&'a Charge<'a>, &'a Verdict)>,
    now: Micros,
) -> Verdict {
    let limit = charge.limit;
    let mut state = counter::state(shard, key, limit);
    for (earlier, verdict) in earlier.filter(|(earlier, _)| earlier.key == charge.key) {
        match (&mut state, verdict.allowed() || earlier.count_denied) {
            (State::Concurrency(leases), true) => {
                concurrency::acquire(limit, leases, earlier.lease, earlier.cost, now);
            }
            (state, true) => limit.take(state, earlier.cost, now),
            (_, false) => {}
        }
    }
    limit.assess(&state, charge.cost, now, charge.hold)
}
