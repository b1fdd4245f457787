//! Settling charges on the shards that hold their counters.

use smallvec::SmallVec;
use tidegate_core::algorithm::concurrency;
use tidegate_core::{Key, Limit, Micros, State, Verdict};

use super::MemoryStore;
use super::cell::CellKey;
use super::counter::{self, Assessed};
use super::shard::Shard;
use crate::charge::{Charge, Intent, Usual, Verdicts, blocked};
use crate::sync::MutexGuard;

/// How many limits of a rule are charged together in the usual way.
const FEW: usize = 4;

impl MemoryStore {
    /// Settles without waiting: takes every charge or none, and adds one verdict per charge.
    pub fn settle_now(&self, charges: &[Charge<'_>], intent: Intent, verdicts: &mut Verdicts) {
        match charges {
            [] => {}
            [charge] => verdicts.push(self.settle_one(charge, intent)),
            _ => {
                self.settle_many(charges, intent, intent == Intent::Take, verdicts);
            }
        }
    }

    /// The same for charges that are known not to be as usual; to others it gives the same answer.
    pub fn settle_any(&self, charges: &[Charge<'_>], intent: Intent, verdicts: &mut Verdicts) {
        match charges {
            [] => {}
            [charge] => verdicts.push(self.settle_one_any(charge, intent)),
            _ => {
                self.settle_many(charges, intent, false, verdicts);
            }
        }
    }

    /// Settles a single charge without waiting.
    pub fn settle_one(&self, charge: &Charge<'_>, intent: Intent) -> Verdict {
        let Charge { key, limit, cost, count_denied, .. } = *charge;
        let settle = || self.settle_usual(key, limit, cost, count_denied);
        let usual = (intent == Intent::Take).then(settle).flatten();
        usual.unwrap_or_else(|| self.settle_one_any(charge, intent))
    }

    /// The same for a charge that is known not to be as usual; to others it gives the same answer.
    pub fn settle_one_any(&self, charge: &Charge<'_>, intent: Intent) -> Verdict {
        let key = CellKey::of(charge.key);
        let mut shard = self.shard(key).lock();
        counter::settle(&mut shard, key, charge, intent == Intent::Take && charge.cost > 0, self.now())
    }

    /// Settles `cost` of a counter as is usual: it has a cell, written under the same limit. Answers
    /// `None`, having changed nothing, if it is not that; [`MemoryStore::settle_one_any`] knows what to do
    /// then.
    #[expect(clippy::inline_always, reason = "this is the way of nearly every decision")]
    #[inline(always)]
    pub fn settle_usual(&self, key: Key, limit: &Limit, cost: u64, count_denied: bool) -> Option<Verdict> {
        let Some(quick) = limit.quick().filter(|_| cost > 0) else {
            return self.settle_window(key, limit, cost, count_denied);
        };
        let mut shard = self.shard_of(key).lock();
        // The clock is read once the cell has been asked for, so that the one is waited for while the
        // other is worked out.
        let cell = shard.cell_mut(CellKey::of(key))?;
        let now = self.now();
        match cell.take_bucket(limit, quick, cost, now) {
            Some(usual) => Some(usual.into()),
            None if count_denied => None,
            None => cell.deny_bucket(limit, quick, cost, now),
        }
    }

    #[inline(never)]
    fn settle_window(&self, key: Key, limit: &Limit, cost: u64, count_denied: bool) -> Option<Verdict> {
        if cost == 0 || !counter::is_window(limit) {
            return None;
        }
        let charge = Charge { count_denied, ..Charge::new(key, limit, cost) };
        let key = CellKey::of(key);
        let mut shard = self.shard(key).lock();
        let cell = shard.cell_mut(key)?;
        counter::settle_window(cell, &charge, self.now())
    }

    /// Takes `cost` of each of a few buckets of one home as is usual: every one has a cell, and the cost
    /// fits. Answers what is left of each, in order; or `None`, having changed nothing, if it is not
    /// that. No two buckets may be the same.
    #[inline]
    pub fn take_all_usual<'l>(
        &self,
        home: Key,
        buckets: impl ExactSizeIterator<Item = (u64, &'l Limit)> + Clone,
        cost: u64,
    ) -> Option<[Usual; FEW]> {
        if buckets.len() > FEW || cost == 0 {
            return None;
        }
        let (mut said, mut before) = ([Usual::UNTOUCHED; FEW], [[0; 2]; FEW]);
        let mut shard = self.shard_of(home).lock();
        let now = self.now();
        // Each is taken in its place at once; if one does not fit, those before it get theirs back.
        for (count, (salt, limit)) in buckets.clone().enumerate() {
            let cell = shard.cell_mut(CellKey::of(home.of_limit(salt)));
            let old = cell.as_ref().map_or([0; 2], |cell| [cell.0[1], cell.0[2]]);
            let Some(taken) = cell.and_then(|cell| cell.take_bucket(limit, limit.quick()?, cost, now)) else {
                for ((salt, _), words) in buckets.zip(&before[..count]) {
                    restore(&mut shard, CellKey::of(home.of_limit(salt)), *words);
                }
                return None;
            };
            (said[count % FEW], before[count % FEW]) = (taken, old);
        }
        Some(said)
    }

    /// Takes a few buckets, of any homes, as [`MemoryStore::take_all_usual`] does those of one.
    #[inline]
    fn take_buckets(
        &self,
        locked: &mut Locked<'_>,
        charges: &[Charge<'_>],
        now: Micros,
        verdicts: &mut Verdicts,
    ) -> bool {
        let may = |charge: &Charge<'_>| charge.cost > 0 && charge.limit.quick().is_some();
        if charges.len() > FEW || !charges.iter().all(may) {
            return false;
        }
        let mut before = [[0; 2]; FEW];
        for (count, charge) in charges.iter().enumerate() {
            let Charge { limit, cost, .. } = *charge;
            let key = CellKey::of(charge.key);
            let cell = locked.shard(self, key).cell_mut(key);
            let old = cell.as_ref().map_or([0; 2], |cell| [cell.0[1], cell.0[2]]);
            let Some(taken) = cell.and_then(|cell| cell.take_bucket(limit, limit.quick()?, cost, now)) else {
                for (charge, words) in charges.iter().zip(&before[..count]) {
                    let key = CellKey::of(charge.key);
                    restore(locked.shard(self, key), key, *words);
                }
                verdicts.clear();
                return false;
            };
            before[count % FEW] = old;
            verdicts.push(taken.into());
        }
        true
    }

    /// Settles several charges, and answers when; those that `may_be_usual` are first tried as such.
    pub(super) fn settle_many(
        &self,
        charges: &[Charge<'_>],
        intent: Intent,
        may_be_usual: bool,
        verdicts: &mut Verdicts,
    ) -> Micros {
        let mut locked = Locked::new(self, charges);
        let now = self.now();
        let repeats = has_repeats(charges);
        if may_be_usual && !repeats && self.take_buckets(&mut locked, charges, now, verdicts) {
            return now;
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
        now
    }

    /// Gives each charge's cost back without waiting.
    pub fn give_back_now(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            let key = CellKey::of(charge.key);
            let mut shard = self.shard(key).lock();
            let now = self.now();
            counter::give_back(&mut shard, key, charge, None, now);
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

/// Gives a bucket back what it was before.
#[cold]
fn restore(shard: &mut Shard, key: CellKey, words: [u64; 2]) {
    if let Some(cell) = shard.cell_mut(key) {
        [cell.0[1], cell.0[2]] = words;
    }
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
