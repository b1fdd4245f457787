//! Settles charges on the shards that hold their counters.

use smallvec::SmallVec;
use tidegate_core::algorithm::concurrency;
use tidegate_core::{Key, Limit, Micros, Outcome, State, Verdict};

use super::cell::{Cell, CellKey, CellWords};
use super::counter::{self, Assessed};
use super::shard::Shard;
use super::{MemoryStore, shard_number};
use crate::charge::{Charge, Intent, Settlement, VerdictSink, Verdicts, blocked};
use crate::sync::MutexGuard;

impl MemoryStore {
    /// Settles without waiting: takes every charge or none, and writes one verdict per charge.
    #[inline]
    pub fn settle_now(
        &self,
        charges: &[Charge<'_>],
        intent: Intent,
        verdicts: &mut impl VerdictSink,
    ) -> Settlement {
        let mut locked = Locked { held: SmallVec::new(), shard_shift: self.shard_shift };
        locked.lock(self, charges);
        let at = self.now();
        if intent == Intent::Take && take_in_place(&mut locked, charges, verdicts, at) {
            return Settlement { at, all_allowed: true };
        }
        let settled = take_carefully(&mut locked, charges, intent, at);
        let all_allowed = settled.iter().all(Verdict::allowed);
        for (index, verdict) in settled.into_iter().enumerate() {
            *verdicts.verdict_mut(index) = verdict;
        }
        Settlement { at, all_allowed }
    }

    /// Takes `cost` of each of a few limits with the same home, if all of their counters have cells and room for it:
    /// the fast path of a rule with several limits. A `None` result means that the fast path does not apply and
    /// nothing has changed: call [`MemoryStore::settle_now`], which settles any charges with the same result.
    #[inline]
    pub fn take_cells<'l>(
        &self,
        home: Key,
        limits: &(impl ExactSizeIterator<Item = (u64, &'l Limit)> + Clone),
        cost: u64,
    ) -> Option<[Verdict; 4]> {
        const NONE: Verdict = Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 };
        let (mut verdicts, mut before) = ([NONE; 4], [Cell::EMPTY; 4]);
        if limits.len() > verdicts.len() || limits.clone().any(|(_, limit)| !counter::fits_cell(limit)) {
            return None;
        }
        let mut shard = self.shard_of(home).lock();
        let now = self.now();
        for (index, (salt, limit)) in limits.clone().enumerate() {
            let charge = Charge::new(home.of_limit(salt), limit, cost);
            let taken = shard.cell_mut(CellKey::of(charge.key)).and_then(|cell| {
                before[index % 4] = *cell;
                counter::take_in_cell(cell, &charge, now)
            });
            let Some(verdict) = taken else {
                for held in before[..index].iter().rev() {
                    shard.cell_mut(held.key()).into_iter().for_each(|cell| *cell = *held);
                }
                return None;
            };
            verdicts[index % 4] = verdict;
        }
        Some(verdicts)
    }

    /// Settles a single charge whose counter has a cell already: the fast path of most decisions. A `None` result
    /// means that the fast path does not apply and nothing has changed: call [`MemoryStore::settle_now`], which
    /// settles any charge with the same result.
    #[expect(clippy::inline_always, reason = "nearly every decision comes here")]
    #[inline(always)]
    pub fn settle_cell(&self, key: Key, limit: &Limit, cost: u64, count_denied: bool) -> Option<Verdict> {
        let Some(quick) = limit.quick().filter(|_| cost > 0) else {
            return self.settle_other_cell(key, limit, cost, count_denied);
        };
        let mut shard = self.shard_of(key).lock();
        // The clock is read after the cell has been looked up, so that the processor fetches the one from
        // memory while it computes the other.
        let cell = shard.cell_mut(CellKey::of(key))?;
        let now = self.now();
        match cell.take_bucket(limit, quick, cost, now) {
            Some(taken) => Some(taken),
            None if count_denied => None,
            None => cell.deny_bucket(limit, quick, cost, now),
        }
    }

    #[inline(never)]
    fn settle_other_cell(&self, key: Key, limit: &Limit, cost: u64, count_denied: bool) -> Option<Verdict> {
        if cost == 0 || !counter::fits_cell(limit) {
            return None;
        }
        let charge = Charge { count_denied, ..Charge::new(key, limit, cost) };
        let key = CellKey::of(key);
        let mut shard = self.shard(key).lock();
        let cell = shard.cell_mut(key)?;
        counter::settle_in_place(cell, &charge, self.now())
    }

    /// Refunds the cost of each charge to its counter, never above full.
    pub fn give_back_now(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            let key = CellKey::of(charge.key);
            let mut shard = self.shard(key).lock();
            let now = self.now();
            counter::give_back(&mut shard, key, charge, None, now);
        }
    }

    /// Restarts the timeout of a held slot. Returns false if the slot is no longer held.
    pub fn renew_now(&self, slot: &Charge<'_>) -> bool {
        let key = CellKey::of(slot.key);
        let mut shard = self.shard(key).lock();
        let now = self.now();
        let renew = |state: &mut _| concurrency::renew(slot.limit, state, slot.lease, now);
        counter::change_leases(&mut shard, key, renew)
    }

    /// Releases a held slot. Returns false if the slot is no longer held.
    pub fn release_now(&self, slot: &Charge<'_>) -> bool {
        let key = CellKey::of(slot.key);
        let mut shard = self.shard(key).lock();
        let now = self.now();
        // An expired lease may still be stored: a slot is held only if it can be renewed.
        let release = |state: &mut _| {
            let held = concurrency::renew(slot.limit, state, slot.lease, now);
            concurrency::release(state, slot.lease);
            held
        };
        counter::change_leases(&mut shard, key, release)
    }
}

/// Takes charges one by one, each in its counter at once, because nearly always all of them fit. If one does not fit,
/// or its counter does not exist yet, the earlier counters are restored and false is returned.
///
/// States that are too large for a cell are not worth copying: one of them is taken last, and if there are several,
/// false is returned.
#[inline]
fn take_in_place(
    locked: &mut Locked<'_>,
    charges: &[Charge<'_>],
    verdicts: &mut impl VerdictSink,
    now: Micros,
) -> bool {
    let mut before: SmallVec<[CellWords; 4]> = SmallVec::new();
    let mut large = None;
    for (index, charge) in charges.iter().enumerate() {
        if !counter::fits_cell(charge.limit) {
            if large.replace((index, charge)).is_some() {
                return undo(locked, &before);
            }
            continue;
        }
        let shard = locked.shard(charge.key);
        if !counter::take_in_place(shard, charge, now, &mut before, verdicts.verdict_mut(index)) {
            return undo(locked, &before);
        }
    }
    if let Some((index, charge)) = large {
        let (key, shard) = (CellKey::of(charge.key), locked.shard(charge.key));
        let Some(verdict) = counter::take_large_in_place(shard, key, charge, now) else {
            return undo(locked, &before);
        };
        *verdicts.verdict_mut(index) = verdict;
    }
    true
}

/// Restores the previous content of cells, in reverse order because two may be of the same counter. Returns false.
#[cold]
#[inline(never)]
fn undo(locked: &mut Locked<'_>, before: &[CellWords]) -> bool {
    for held in before.iter().rev().map(|words| Cell(*words)) {
        let key = held.key();
        let home = key.leading_home();
        if let Some(cell) = locked.shard(Key { home, mark: key.mark }).cell_mut(key) {
            *cell = held;
        }
    }
    false
}

/// Settles charges of any kind: charges that do not fit or cost nothing, that are only assessed, that share a
/// counter, or whose counters do not exist yet. All are assessed first, then taken.
#[inline(never)]
fn take_carefully(locked: &mut Locked<'_>, charges: &[Charge<'_>], intent: Intent, now: Micros) -> Verdicts {
    let mut verdicts = Verdicts::new();
    let repeats = has_repeats(charges);
    let mut all: SmallVec<[Assessed; 4]> = SmallVec::with_capacity(charges.len());
    let mut all_fit = intent == Intent::Take && !repeats;
    for (index, charge) in charges.iter().enumerate() {
        let (key, shard) = (CellKey::of(charge.key), locked.shard(charge.key));
        let mut assessed = counter::assess(shard, key, charge, now);
        if repeats {
            let earlier = charges[..index].iter().zip(&verdicts);
            assessed.verdict = assess_after(shard, key, charge, earlier, now);
        }
        all_fit &= assessed.verdict.allowed() && charge.cost > 0;
        verdicts.push(assessed.verdict);
        all.push(assessed);
    }
    if !all_fit {
        take_some(locked, charges, &all, intent, repeats, &mut verdicts, now);
        return verdicts;
    }
    // Adding a key may move cells.
    let mut moved = false;
    for (charge, assessed) in charges.iter().zip(&all) {
        let (key, shard) = (CellKey::of(charge.key), locked.shard(charge.key));
        moved |= if moved {
            let again = counter::assess(shard, key, charge, now);
            counter::take(shard, key, charge, &again, now)
        } else {
            counter::take(shard, key, charge, assessed, now)
        };
    }
    verdicts
}

/// Takes those assessed charges that are taken even though not all of them fit.
#[inline(never)]
fn take_some(
    locked: &mut Locked<'_>,
    charges: &[Charge<'_>],
    all: &[Assessed],
    intent: Intent,
    repeats: bool,
    verdicts: &mut Verdicts,
    now: Micros,
) {
    let blocked = blocked(charges, verdicts);
    let taken = |charge: &Charge<'_>, verdict: &Verdict| {
        let fits = verdict.allowed() && !blocked;
        intent == Intent::Take && charge.cost > 0 && (fits || charge.count_denied)
    };
    // Adding a key may move cells, and the state of a repeated key changes.
    let mut moved = repeats;
    for ((charge, assessed), verdict) in charges.iter().zip(all).zip(&*verdicts) {
        let (key, shard) = (CellKey::of(charge.key), locked.shard(charge.key));
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
            let (key, shard) = (CellKey::of(charge.key), locked.shard(charge.key));
            *verdict = counter::as_it_stands(shard, key, charge, *verdict, taken, now);
        }
    }
}

/// The locked shards of a request's charges, each with its number.
///
/// Requests never deadlock: a thread waits for a shard only while all shards it holds have lower numbers.
struct Locked<'a> {
    held: SmallVec<[(usize, MutexGuard<'a, Shard>); 4]>,
    shard_shift: u32,
}

impl<'a> Locked<'a> {
    /// Locks the shards in the order of the charges as long as that needs no waiting, else in ascending order.
    #[inline]
    fn lock(&mut self, store: &'a MemoryStore, charges: &[Charge<'_>]) {
        let mut highest = 0;
        for charge in charges {
            let number = store.shard_number(charge.key);
            if self.index(number).is_some() {
                continue;
            }
            let shard = &store.shards[number];
            let guard = if number >= highest { Some(shard.lock()) } else { shard.try_lock() };
            let Some(guard) = guard else { return self.lock_in_order(store, charges) };
            self.held.push((number, guard));
            highest = highest.max(number);
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_in_order(&mut self, store: &'a MemoryStore, charges: &[Charge<'_>]) {
        self.held.clear();
        let mut numbers: SmallVec<[usize; 8]> =
            charges.iter().map(|charge| store.shard_number(charge.key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.held.extend(numbers.into_iter().map(|number| (number, store.shards[number].lock())));
    }

    #[inline]
    fn index(&self, number: usize) -> Option<usize> {
        self.held.iter().position(|(held, _)| *held == number)
    }

    /// Returns the shard of a key.
    #[inline]
    fn shard(&mut self, key: Key) -> &mut Shard {
        let number = shard_number(key, self.shard_shift);
        let index = self.index(number).expect("the shards of all charges are locked");
        &mut self.held[index].1
    }
}

/// Returns whether two charges have the same counter, as when a request repeats a descriptor.
fn has_repeats(charges: &[Charge<'_>]) -> bool {
    const FEW: usize = 16;
    if charges.len() < 2 {
        return false;
    }
    if charges.len() <= FEW {
        let same = |index: usize, one: &Charge<'_>| charges[..index].iter().any(|two| two.key == one.key);
        return charges.iter().enumerate().any(|(index, charge)| same(index, charge));
    }
    let mut keys: Vec<_> = charges.iter().map(|charge| charge.key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the verdict of a charge as if the earlier charges of the same counter had been taken.
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
