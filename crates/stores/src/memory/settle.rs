//! Settling charges on the shards that hold their counters.

use smallvec::SmallVec;
use tidegate_core::algorithm::concurrency;
use tidegate_core::{Key, Limit, Micros, State, Verdict};

use super::cell::{Cell, CellKey, Fit};
use super::counter::{self, Assessed};
use super::shard::Shard;
use super::{MemoryStore, shard_number};
use crate::charge::{Charge, Intent, Verdicts, blocked};
use crate::sync::MutexGuard;

impl MemoryStore {
    /// Settles without waiting: takes every charge or none, and adds one verdict per charge. Returns the time
    /// of the settlement by the store's clock.
    pub fn settle_now(&self, charges: &[Charge<'_>], intent: Intent, verdicts: &mut Verdicts) -> Micros {
        let Some((first, others)) = charges.split_first() else { return self.now() };
        // The limits of one rule share a shard.
        let number = self.shard_number(first.key);
        if others.iter().all(|charge| self.shard_number(charge.key) == number) {
            let mut shard = self.shards[number].lock();
            return self.settle_locked(&mut *shard, charges, intent, verdicts);
        }
        self.settle_locked(&mut Locked::new(self, charges), charges, intent, verdicts)
    }

    #[inline]
    fn settle_locked(
        &self,
        shards: &mut impl Shards,
        charges: &[Charge<'_>],
        intent: Intent,
        verdicts: &mut Verdicts,
    ) -> Micros {
        let now = self.now();
        if intent == Intent::Look || !take_in_place(shards, charges, verdicts, now) {
            take_carefully(shards, charges, intent, verdicts, now);
        }
        now
    }

    /// Takes `cost` of each of a few limits of one home, whose counters all have cells and room for it: the short
    /// path of a rule with several limits. Returns their verdicts in order; or `None`, having changed nothing, if it
    /// is not that. [`MemoryStore::settle_now`] settles those charges, and decides the same.
    #[inline]
    pub fn settle_cells<'l>(
        &self,
        home: Key,
        limits: impl ExactSizeIterator<Item = (u64, &'l Limit)> + Clone,
        cost: u64,
    ) -> Option<[Verdict; 4]> {
        if limits.len() > FEW || limits.clone().any(|(_, limit)| !counter::fits_cell(limit)) {
            return None;
        }
        let (mut fits, mut before) = ([Fit::NOTHING; FEW], [Cell::EMPTY; FEW]);
        let mut shard = self.shard_of(home).lock();
        let now = self.now();
        for (index, (salt, limit)) in limits.clone().enumerate() {
            let charge = Charge::new(home.of_limit(salt), limit, cost);
            let cell = shard.cell_mut(CellKey::of(charge.key));
            let taken = cell.and_then(|cell| {
                before[index % FEW] = *cell;
                counter::take_in_place(cell, &charge, now)
            });
            let Some(fit) = taken else {
                let keys = limits.map(|(salt, _)| home.of_limit(salt)).take(index);
                undo(&mut *shard, keys, &before);
                return None;
            };
            fits[index % FEW] = fit;
        }
        Some(fits.map(Verdict::from))
    }

    /// Settles a single charge on a counter that has a cell already: the short path of most decisions. Returns
    /// `None`, having changed nothing, where more than the cell is needed. [`MemoryStore::settle_now`] settles
    /// those charges, and decides the same.
    #[expect(clippy::inline_always, reason = "nearly every decision comes here")]
    #[inline(always)]
    pub fn settle_cell(&self, key: Key, limit: &Limit, cost: u64, count_denied: bool) -> Option<Verdict> {
        let Some(quick) = limit.quick().filter(|_| cost > 0) else {
            return self.settle_window(key, limit, cost, count_denied);
        };
        let mut shard = self.shard_of(key).lock();
        // The clock is read after the cell has been looked up, so that the processor fetches the one from
        // memory while it computes the other.
        let cell = shard.cell_mut(CellKey::of(key))?;
        let now = self.now();
        match cell.take_bucket(limit, quick, cost, now) {
            Some(fit) => Some(fit.into()),
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

/// So many charges are taken in place; more are settled with more care.
const FEW: usize = 4;

/// Takes charges of counters that have small cells, each in its cell at once, because mostly all of them fit, and adds
/// their verdicts. If one does not fit, or needs more than a cell, the cells before it get back what they held and
/// false is returned.
#[inline]
fn take_in_place(
    shards: &mut impl Shards,
    charges: &[Charge<'_>],
    verdicts: &mut Verdicts,
    now: Micros,
) -> bool {
    if charges.len() > FEW || charges.iter().any(|charge| !counter::fits_cell(charge.limit)) {
        return false;
    }
    let mut before = [Cell::EMPTY; FEW];
    for (index, charge) in charges.iter().enumerate() {
        let cell = shards.of(charge.key).cell_mut(CellKey::of(charge.key));
        let taken = cell.and_then(|cell| {
            before[index % FEW] = *cell;
            counter::take_in_place(cell, charge, now)
        });
        let Some(fit) = taken else {
            undo(shards, charges[..index].iter().map(|charge| charge.key), &before);
            verdicts.clear();
            return false;
        };
        verdicts.push(fit.into());
    }
    true
}

/// Gives cells back what they held, the last one first: two may be of the same counter.
#[cold]
#[inline(never)]
fn undo(shards: &mut impl Shards, keys: impl Iterator<Item = Key>, before: &[Cell; FEW]) {
    let held: SmallVec<[(Key, Cell); FEW]> = keys.zip(before.iter().copied()).collect();
    for (key, held) in held.into_iter().rev() {
        if let Some(cell) = shards.of(key).cell_mut(CellKey::of(key)) {
            *cell = held;
        }
    }
}

/// Settles charges of any kind: those that do not fit, cost nothing, are only looked at, are of the same counter,
/// of counters that are not there yet, or of algorithms that keep more than a cell. Each is assessed first; then
/// they are taken.
#[inline(never)]
fn take_carefully(
    shards: &mut impl Shards,
    charges: &[Charge<'_>],
    intent: Intent,
    verdicts: &mut Verdicts,
    now: Micros,
) {
    let repeats = has_repeats(charges);
    let mut all: SmallVec<[Assessed; 4]> = SmallVec::with_capacity(charges.len());
    let mut all_fit = intent == Intent::Take && !repeats;
    for (index, charge) in charges.iter().enumerate() {
        let (key, shard) = (CellKey::of(charge.key), shards.of(charge.key));
        let mut assessed = counter::assess(shard, key, charge, now);
        if repeats {
            let earlier = charges[..index].iter().zip(&*verdicts);
            assessed.verdict = assess_after(shard, key, charge, earlier, now);
        }
        all_fit &= assessed.verdict.allowed() && charge.cost > 0;
        verdicts.push(assessed.verdict);
        all.push(assessed);
    }
    if !all_fit {
        return take_some(shards, charges, &all, intent, repeats, verdicts, now);
    }
    // Once a key was added, cells may have moved.
    let mut moved = false;
    for (charge, assessed) in charges.iter().zip(&all) {
        let (key, shard) = (CellKey::of(charge.key), shards.of(charge.key));
        moved |= if moved {
            let again = counter::assess(shard, key, charge, now);
            counter::take(shard, key, charge, &again, now)
        } else {
            counter::take(shard, key, charge, assessed, now)
        };
    }
}

/// Takes those of the assessed charges that are to be taken, where not all fit.
#[inline(never)]
fn take_some(
    shards: &mut impl Shards,
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
    // Once a key was added, cells may have moved; and a repeated key's state changes.
    let mut moved = repeats;
    for ((charge, assessed), verdict) in charges.iter().zip(all).zip(&*verdicts) {
        let (key, shard) = (CellKey::of(charge.key), shards.of(charge.key));
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
            let (key, shard) = (CellKey::of(charge.key), shards.of(charge.key));
            *verdict = counter::as_it_stands(shard, key, charge, *verdict, taken, now);
        }
    }
}

/// The locked shards of some charges.
trait Shards {
    /// The shard of a charge's key.
    fn of(&mut self, key: Key) -> &mut Shard;
}

/// One shard has all of them.
impl Shards for Shard {
    #[inline]
    fn of(&mut self, _: Key) -> &mut Shard {
        self
    }
}

/// Several shards, each with its number.
///
/// Two requests never wait for each other: a shard is waited for only while all shards that are held have lower
/// numbers.
struct Locked<'a> {
    held: SmallVec<[(usize, MutexGuard<'a, Shard>); 4]>,
    shard_shift: u32,
}

impl<'a> Locked<'a> {
    /// Locks the shards in the order of the charges as long as that needs no waiting, else in ascending order.
    #[inline]
    fn new(store: &'a MemoryStore, charges: &[Charge<'_>]) -> Self {
        let mut locked = Self { held: SmallVec::new(), shard_shift: store.shard_shift };
        let mut highest = 0;
        for charge in charges {
            let number = store.shard_number(charge.key);
            if locked.index(number).is_some() {
                continue;
            }
            let shard = &store.shards[number];
            let guard = if number >= highest { Some(shard.lock()) } else { shard.try_lock() };
            let Some(guard) = guard else {
                drop(locked);
                return Self::in_order(store, charges);
            };
            locked.held.push((number, guard));
            highest = highest.max(number);
        }
        locked
    }

    #[cold]
    #[inline(never)]
    fn in_order(store: &'a MemoryStore, charges: &[Charge<'_>]) -> Self {
        let mut numbers: SmallVec<[usize; 8]> =
            charges.iter().map(|charge| store.shard_number(charge.key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let held = numbers.into_iter().map(|number| (number, store.shards[number].lock())).collect();
        Self { held, shard_shift: store.shard_shift }
    }

    #[inline]
    fn index(&self, number: usize) -> Option<usize> {
        self.held.iter().position(|(held, _)| *held == number)
    }
}

impl Shards for Locked<'_> {
    #[inline]
    fn of(&mut self, key: Key) -> &mut Shard {
        let number = shard_number(key, self.shard_shift);
        let index = self.index(number).expect("the shards of all charges are locked");
        &mut self.held[index].1
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
