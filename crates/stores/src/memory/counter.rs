//! Reads a counter from its cell, charges it, and writes it back.

use smallvec::SmallVec;
use tidegate_core::algorithm::{
    arrival, concurrency, fixed_window, leaky_bucket, sliding_window, sub_windows, token_bucket,
};
use tidegate_core::{Algorithm, Limit, Micros, State, Taken, Verdict};

use super::cell::{Cell, CellKey, CellWords, Kind};
use super::shard::{CellIndex, Shard};
use crate::charge::Charge;

/// A state that fits into a cell.
trait CellState: Copy + Default {
    const KIND: Kind;
    fn read(cell: &Cell, limit: &Limit) -> Self;
    fn write(&self, key: CellKey, fill: u8, limit: &Limit) -> Cell;
    fn charge(self, charge: &Charge<'_>, now: Micros) -> (Self, Verdict);
    fn take(&mut self, limit: &Limit, cost: u64, now: Micros);
}

impl CellState for arrival::State {
    const KIND: Kind = Kind::Arrival;
    #[inline]
    fn read(cell: &Cell, _: &Limit) -> Self {
        cell.arrival()
    }
    #[inline]
    fn write(&self, key: CellKey, fill: u8, _: &Limit) -> Cell {
        Cell::of_arrival(key, fill, self)
    }
    #[inline]
    fn charge(self, charge: &Charge<'_>, now: Micros) -> (Self, Verdict) {
        let Charge { limit, cost, hold, .. } = *charge;
        match limit.algorithm() {
            Algorithm::LeakyBucket { .. } => leaky_bucket::charge(limit, self, cost, now, hold),
            _ => token_bucket::charge(limit, self, cost, now),
        }
    }
    fn take(&mut self, limit: &Limit, cost: u64, now: Micros) {
        arrival::take(limit, self, cost, now);
    }
}

impl CellState for fixed_window::State {
    const KIND: Kind = Kind::FixedWindow;
    #[inline]
    fn read(cell: &Cell, _: &Limit) -> Self {
        cell.fixed_window()
    }
    #[inline]
    fn write(&self, key: CellKey, fill: u8, _: &Limit) -> Cell {
        Cell::of_fixed_window(key, fill, self)
    }
    #[inline]
    fn charge(self, charge: &Charge<'_>, now: Micros) -> (Self, Verdict) {
        fixed_window::charge(charge.limit, self, charge.cost, now)
    }
    fn take(&mut self, limit: &Limit, cost: u64, now: Micros) {
        fixed_window::take(limit, self, cost, now);
    }
}

impl CellState for sliding_window::State {
    const KIND: Kind = Kind::SlidingWindow;
    #[inline]
    fn read(cell: &Cell, limit: &Limit) -> Self {
        cell.sliding_window(limit.period_us())
    }
    #[inline]
    fn write(&self, key: CellKey, fill: u8, limit: &Limit) -> Cell {
        Cell::of_sliding_window(key, fill, self, limit.period_us())
    }
    #[inline]
    fn charge(self, charge: &Charge<'_>, now: Micros) -> (Self, Verdict) {
        sliding_window::charge(charge.limit, self, charge.cost, now)
    }
    fn take(&mut self, limit: &Limit, cost: u64, now: Micros) {
        sliding_window::take(limit, self, cost, now);
    }
}

#[inline]
fn kind_of(limit: &Limit) -> Kind {
    match limit.algorithm() {
        Algorithm::FixedWindow => Kind::FixedWindow,
        Algorithm::SlidingWindow => Kind::SlidingWindow,
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => Kind::Arrival,
        Algorithm::SubWindows { .. } | Algorithm::SlidingLog | Algorithm::Concurrency => Kind::Large,
    }
}

/// Returns whether the state of a limit's counters fits into a cell.
#[inline]
pub(super) fn fits_cell(limit: &Limit) -> bool {
    kind_of(limit) != Kind::Large
}

/// Takes a charge of a counter that already has a cell, if it fits, and appends the previous content of the cell to
/// `before`. Returns false and changes nothing if the charge does not fit, costs nothing, or the cell belongs to
/// another algorithm.
// Not inlined into the loop over the charges: together they have more values than there are registers.
#[inline(never)]
pub(super) fn take_in_place(
    shard: &mut Shard,
    charge: &Charge<'_>,
    now: Micros,
    before: &mut SmallVec<[CellWords; 4]>,
    verdict: &mut Verdict,
) -> bool {
    let Some(cell) = shard.cell_mut(CellKey::of(charge.key)) else { return false };
    let words = cell.0;
    let Some(taken) = take_in_cell(cell, charge, now) else { return false };
    before.push(words);
    *verdict = taken;
    true
}

/// Takes a charge in its cell, if it fits. Returns `None` and changes nothing if the charge does not fit, costs
/// nothing, or the cell belongs to another algorithm.
#[inline]
pub(super) fn take_in_cell(cell: &mut Cell, charge: &Charge<'_>, now: Micros) -> Option<Verdict> {
    let Charge { limit, cost, .. } = *charge;
    match limit.quick() {
        _ if cost == 0 => None,
        Some(quick) => cell.take_bucket(limit, quick, cost, now),
        None => settle_in_place(cell, charge, now).filter(Verdict::allowed),
    }
}

/// Takes or denies a charge of a counter that already has a cell. Returns `None` and changes nothing if the cell
/// belongs to another algorithm, or if the charge is denied and the denial would change the counter.
#[inline(never)]
pub(super) fn settle_in_place(cell: &mut Cell, charge: &Charge<'_>, now: Micros) -> Option<Verdict> {
    match kind_of(charge.limit) {
        Kind::SlidingWindow => settle_small::<sliding_window::State>(cell, charge, now),
        Kind::FixedWindow => settle_small::<fixed_window::State>(cell, charge, now),
        Kind::Arrival => settle_small::<arrival::State>(cell, charge, now),
        Kind::Large => None,
    }
}

#[inline]
fn settle_small<S: CellState>(cell: &mut Cell, charge: &Charge<'_>, now: Micros) -> Option<Verdict> {
    if cell.kind() != S::KIND {
        return None;
    }
    let limit = charge.limit;
    let (next, verdict) = S::read(cell, limit).charge(charge, now);
    if verdict.allowed() {
        *cell = next.write(cell.key(), limit.weight(verdict.remaining), limit);
        return Some(verdict);
    }
    // A denial may be counted, and it adapts a bucket to a changed limit.
    (!charge.count_denied && S::KIND != Kind::Arrival).then_some(verdict)
}

/// Takes a charge of a counter whose state is too large for a cell, if the counter exists and the charge fits.
/// Otherwise returns `None` and changes nothing.
#[inline(never)]
pub(super) fn take_large_in_place(
    shard: &mut Shard,
    key: CellKey,
    charge: &Charge<'_>,
    now: Micros,
) -> Option<Verdict> {
    let Charge { limit, cost, hold, .. } = *charge;
    let (cell, state) = shard.large_mut(key).filter(|_| cost > 0)?;
    let verdict = if let State::SubWindows(ring) = state
        && let Algorithm::SubWindows { .. } = limit.algorithm()
    {
        Some(sub_windows::charge(limit, ring, cost, now)).filter(Verdict::allowed)?
    } else {
        let verdict = Some(limit.assess(state, cost, now, hold)).filter(Verdict::allowed)?;
        take_large(state, charge, true, now);
        verdict
    };
    *cell = Cell::large(key, limit.weight(verdict.remaining), state.expires(limit), cell.b());
    Some(verdict)
}

/// Returns the verdict of a charge that was not settled as assessed, with what is left now. If a denial was charged,
/// that has delayed its own retry.
pub(super) fn as_it_stands(
    shard: &Shard,
    key: CellKey,
    charge: &Charge<'_>,
    verdict: Verdict,
    taken: bool,
    now: Micros,
) -> Verdict {
    if taken && !verdict.allowed() {
        let again = assess(shard, key, charge, now).verdict;
        if !again.allowed() {
            return again;
        }
    }
    let peek = Charge { cost: 0, count_denied: false, ..*charge };
    let stands = assess(shard, key, &peek, now).verdict;
    Verdict { outcome: verdict.outcome, ..stands }
}

/// A charge that was assessed under the lock, and not taken yet.
pub(super) struct Assessed {
    pub(super) verdict: Verdict,
    index: CellIndex,
    /// The content of the cell if the charge is taken. Large states are changed in place.
    taken: Cell,
}

/// Assesses a charge, and computes the state after taking it.
#[inline]
pub(super) fn assess(shard: &Shard, key: CellKey, charge: &Charge<'_>, now: Micros) -> Assessed {
    match kind_of(charge.limit) {
        Kind::Arrival => assess_cell::<arrival::State>(shard, key, charge, now),
        Kind::SlidingWindow => assess_cell::<sliding_window::State>(shard, key, charge, now),
        Kind::FixedWindow => assess_cell::<fixed_window::State>(shard, key, charge, now),
        Kind::Large => {
            let index = shard.find(key);
            let limit = charge.limit;
            let verdict = match large(shard, index) {
                Some(state) => limit.assess(state, charge.cost, now, charge.hold),
                None => limit.assess(&limit.fresh(), charge.cost, now, charge.hold),
            };
            Assessed { verdict, index, taken: Cell::EMPTY }
        }
    }
}

#[inline]
fn assess_cell<S: CellState>(shard: &Shard, key: CellKey, charge: &Charge<'_>, now: Micros) -> Assessed {
    let limit = charge.limit;
    let index = shard.find(key);
    let cell = index.slot.map(|slot| shard.page(index.page).cell(slot));
    let state = match cell {
        Some(cell) if cell.kind() == S::KIND => S::read(cell, limit),
        _ => S::default(),
    };
    let (mut next, verdict) = state.charge(charge, now);
    let mut fill = limit.weight(verdict.remaining);
    if !verdict.allowed() && charge.count_denied {
        next.take(limit, charge.cost, now);
        fill = u8::MAX;
    }
    Assessed { verdict, index, taken: next.write(key, fill, limit) }
}

fn large(shard: &Shard, index: CellIndex) -> Option<&State> {
    let page = shard.page(index.page);
    page.large(page.cell(index.slot?))
}

/// Writes the state after a denied charge: a bucket whose limit has changed continues at the new rate.
pub(super) fn carry_on(shard: &mut Shard, charge: &Charge<'_>, assessed: &Assessed) {
    let Assessed { index, taken, .. } = assessed;
    let page = shard.page_mut(index.page);
    match index.slot {
        Some(slot) if kind_of(charge.limit) == Kind::Arrival && page.cell(slot).kind() == Kind::Arrival => {
            page.set(slot, *taken);
        }
        _ => {}
    }
}

/// Takes an assessed charge. Nothing may have been inserted into the shard since the assessment. Returns whether this
/// call inserted a key.
#[inline]
pub(super) fn take(
    shard: &mut Shard,
    key: CellKey,
    charge: &Charge<'_>,
    assessed: &Assessed,
    now: Micros,
) -> bool {
    let Assessed { index, taken, verdict } = assessed;
    match index.slot {
        _ if kind_of(charge.limit) == Kind::Large => {
            let fill = charge.limit.weight(verdict.remaining);
            change_large(shard, *index, key, charge.limit, fill, now, |state| {
                take_large(state, charge, verdict.allowed(), now);
            })
        }
        Some(slot) => {
            shard.page_mut(index.page).set(slot, *taken);
            false
        }
        None => {
            shard.insert(key, now, *taken);
            true
        }
    }
}

fn take_large(state: &mut State, charge: &Charge<'_>, fits: bool, now: Micros) {
    let Charge { limit, cost, lease, .. } = *charge;
    if limit.algorithm() != Algorithm::Concurrency {
        return limit.take(state, cost, now);
    }
    if !matches!(state, State::Concurrency(_)) {
        *state = limit.fresh();
    }
    // Slots that are not free cannot be held, even if denied charges are counted.
    if let State::Concurrency(leases) = state
        && fits
    {
        concurrency::hold(limit, leases, lease, cost, now);
    }
}

/// Refunds a charge's cost to its counter, if there is one; to the window or bucket it was taken from, if given.
pub(super) fn give_back(
    shard: &mut Shard,
    key: CellKey,
    charge: &Charge<'_>,
    taken: Option<Taken>,
    now: Micros,
) {
    let Charge { limit, cost, .. } = *charge;
    let give_back = |state: &mut State| match taken {
        None => limit.give_back(state, cost, now),
        Some(taken) => limit.give_back_taken(state, cost, taken, now),
    };
    let index = shard.find(key);
    let Some(slot) = index.slot else { return };
    let cell = *shard.page(index.page).cell(slot);
    if cell.kind() != kind_of(limit) {
        return;
    }
    if cell.kind() == Kind::Large {
        change_large(shard, index, key, limit, cell.fill(), now, give_back);
        return;
    }
    let mut state = state(shard, key, limit);
    give_back(&mut state);
    if let Some(given) = small_cell(&state, key, cell.fill(), limit) {
        shard.page_mut(index.page).set(slot, given);
    }
}

/// Charges a cost that was used already, even if it does not fit.
pub(super) fn overdraw(shard: &mut Shard, key: CellKey, charge: &Charge<'_>, now: Micros) {
    let Charge { limit, cost, .. } = *charge;
    let index = shard.find(key);
    if kind_of(limit) == Kind::Large {
        change_large(shard, index, key, limit, u8::MAX, now, |state| limit.overdraw(state, cost, now));
        return;
    }
    let mut state = state(shard, key, limit);
    limit.overdraw(&mut state, cost, now);
    let Some(cell) = small_cell(&state, key, u8::MAX, limit) else { return };
    match index.slot {
        Some(slot) => shard.page_mut(index.page).set(slot, cell),
        None => shard.insert(key, now, cell),
    }
}

/// Returns a state as a cell, if it fits into one.
fn small_cell(state: &State, key: CellKey, fill: u8, limit: &Limit) -> Option<Cell> {
    match state {
        State::Arrival(state) => Some(state.write(key, fill, limit)),
        State::SlidingWindow(state) => Some(state.write(key, fill, limit)),
        State::FixedWindow(state) => Some(state.write(key, fill, limit)),
        _ => None,
    }
}

/// Changes the leases of a key, if there are any.
pub(super) fn change_leases(
    shard: &mut Shard,
    key: CellKey,
    change: impl FnOnce(&mut concurrency::State) -> bool,
) -> bool {
    let Some((cell, State::Concurrency(leases))) = shard.large_mut(key) else { return false };
    let changed = change(leases);
    *cell = Cell::large(key, cell.fill(), leases.expires(), cell.b());
    changed
}

/// Changes a large state, or a new one if there is none yet. Returns whether a key was added.
fn change_large(
    shard: &mut Shard,
    index: CellIndex,
    key: CellKey,
    limit: &Limit,
    fill: u8,
    now: Micros,
    change: impl FnOnce(&mut State),
) -> bool {
    let page = shard.page_mut(index.page);
    let state = index.slot.and_then(|slot| page.large_mut(slot));
    if let (Some(slot), Some(state)) = (index.slot, state) {
        change(state);
        let expires = state.expires(limit);
        let index = page.cell(slot).b();
        page.set(slot, Cell::large(key, fill, expires, index));
        return false;
    }
    if let Some(slot) = index.slot {
        // The key had a counter of another algorithm.
        shard.remove(index.page, slot);
    }
    let mut state = limit.fresh();
    change(&mut state);
    shard.insert_large(key, now, fill, state.expires(limit), state);
    true
}

/// Returns a counter's state, for charges that build on one another.
pub(super) fn state(shard: &Shard, key: CellKey, limit: &Limit) -> State {
    let index = shard.find(key);
    let cell = index.slot.map(|slot| *shard.page(index.page).cell(slot));
    match cell.map(|cell| (cell.kind(), cell)) {
        Some((Kind::FixedWindow, cell)) => State::FixedWindow(cell.fixed_window()),
        Some((Kind::SlidingWindow, cell)) => State::SlidingWindow(cell.sliding_window(limit.period_us())),
        Some((Kind::Arrival, cell)) => State::Arrival(cell.arrival()),
        Some((Kind::Large, _)) | None => large(shard, index).cloned().unwrap_or_else(|| limit.fresh()),
    }
}
