//! A small open-addressing hash table, which bounds the work of every step.
//!
//! Growing, expiring, evicting and snapshotting all work page by page, and a page never has more than [`PAGE_SLOTS`]
//! slots, so no step takes longer however many keys there are.

use tidegate_core::{Micros, State};

use super::cell::{Cell, CellKey, Kind};

/// Maximum number of slots of a page. A full page is split in two.
pub(super) const PAGE_SLOTS: usize = 256;

/// Slots are added in steps this small so that pages stay well filled.
const SLOT_STEP: usize = 16;

/// Returns the maximum number of cells: 13 of 16 slots, so that probes stay short and always end.
const fn capacity(slots: usize) -> usize {
    slots * 13 / 16
}

/// Maximum number of cells in a page.
pub(super) const PAGE_CELLS: usize = capacity(PAGE_SLOTS);

fn slots_for(cells: usize) -> usize {
    let slots = (cells * 16).div_ceil(13);
    slots.next_multiple_of(if slots < SLOT_STEP { 4 } else { SLOT_STEP })
}

/// A page holds all cells whose marks begin with the same `depth` bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    slots: Box<[Cell]>,
    /// States too large for a cell, in no order. Most pages have none, and then take half a cache line.
    large: Option<Box<LargeStates>>,
    len: u16,
    pub(super) depth: u8,
}

#[derive(Clone, Debug, Default)]
struct LargeStates(Vec<State>);

impl Page {
    pub(super) fn new(depth: u8) -> Self {
        Self { depth, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= PAGE_CELLS
    }

    /// Returns whether adding a cell makes the page move its cells into a larger table.
    pub(super) fn must_grow(&self) -> bool {
        self.len() >= capacity(self.slots.len())
    }

    /// Returns the slot where the search for a mark starts: its low half, scaled to the number of slots.
    #[inline]
    fn first_slot(&self, mark: u64) -> usize {
        (((mark & 0xffff_ffff) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next_slot(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// Returns the slot of a key.
    #[inline]
    pub(super) fn find(&self, key: CellKey) -> Option<usize> {
        let first = self.first_slot(key.mark);
        let (before, after) = self.slots.split_at_checked(first)?;
        let stops = |cell: &Cell| cell.is_empty() || cell.is_of(key);
        let slot = match after.iter().position(stops) {
            Some(step) => first + step,
            None => before.iter().position(stops)?,
        };
        (!self.slots[slot].is_empty()).then_some(slot)
    }

    /// Returns the cell of a key, if it has one.
    #[inline]
    pub(super) fn cell_mut(&mut self, key: CellKey) -> Option<&mut Cell> {
        let first = self.first_slot(key.mark);
        Self::cell_from(&mut self.slots, first, key)
    }

    /// Returns the cell and the state of a key whose state is too large for a cell.
    #[inline]
    pub(super) fn large_of_key(&mut self, key: CellKey) -> Option<(&mut Cell, &mut State)> {
        let first = self.first_slot(key.mark);
        let cell = Self::cell_from(&mut self.slots, first, key).filter(|cell| cell.kind() == Kind::Large)?;
        let state = self.large.as_mut()?.0.get_mut(cell.b() as usize)?;
        Some((cell, state))
    }

    #[inline]
    fn cell_from(slots: &mut [Cell], first: usize, key: CellKey) -> Option<&mut Cell> {
        let (before, after) = slots.split_at_mut_checked(first)?;
        for cell in after {
            if cell.is_of(key) {
                return Some(cell);
            }
            if cell.is_empty() {
                return None;
            }
        }
        Self::cell_among(before, key)
    }

    /// Continues the search after the first slot.
    #[cold]
    fn cell_among(slots: &mut [Cell], key: CellKey) -> Option<&mut Cell> {
        slots.iter_mut().take_while(|cell| !cell.is_empty()).find(|cell| cell.is_of(key))
    }

    #[inline]
    pub(super) fn cell(&self, slot: usize) -> &Cell {
        &self.slots[slot]
    }

    /// Overwrites the cell of a key with a newer one of the same key.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, cell: Cell) {
        if self.slots[slot].kind() == Kind::Large && cell.kind() != Kind::Large {
            self.remove_large(self.slots[slot]);
        }
        self.slots[slot] = cell;
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.slots.iter().filter(|cell| !cell.is_empty())
    }

    /// Returns the state of a cell of kind [`Kind::Large`].
    pub(super) fn large(&self, cell: &Cell) -> Option<&State> {
        self.large.as_ref().filter(|_| cell.kind() == Kind::Large)?.0.get(cell.b() as usize)
    }

    pub(super) fn large_mut(&mut self, slot: usize) -> Option<&mut State> {
        let cell = self.slots[slot];
        self.large.as_mut().filter(|_| cell.kind() == Kind::Large)?.0.get_mut(cell.b() as usize)
    }

    /// Adds a cell whose key is not in the page. The caller must make sure that the page is not full.
    pub(super) fn insert(&mut self, cell: Cell) {
        if self.must_grow() {
            self.resize(slots_for(self.len() + 1));
        }
        self.len += 1;
        self.place(cell);
    }

    /// Adds a cell with a large state.
    pub(super) fn insert_large(&mut self, key: CellKey, fill: u8, expires: Micros, state: State) {
        let large = &mut self.large.get_or_insert_default().0;
        let index = large.len() as u64;
        large.push(state);
        self.insert(Cell::large(key, fill, expires, index));
    }

    fn place(&mut self, cell: Cell) {
        let mut slot = self.first_slot(cell.mark());
        while !self.slots[slot].is_empty() {
            slot = self.next_slot(slot);
        }
        self.slots[slot] = cell;
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Cell::EMPTY; slots].into_boxed_slice());
        for cell in old.iter().filter(|cell| !cell.is_empty()) {
            self.place(*cell);
        }
    }

    /// Removes a cell and closes the gap, so that later searches still find the cells after it.
    pub(super) fn remove(&mut self, slot: usize) {
        self.remove_large(self.slots[slot]);
        self.len -= 1;
        let (mut gap, mut next) = (slot, slot);
        loop {
            next = self.next_slot(next);
            if self.slots[next].is_empty() {
                break;
            }
            // A cell may fill the gap unless its search starts after it.
            let first = self.first_slot(self.slots[next].mark());
            let begins_after =
                if gap <= next { gap < first && first <= next } else { gap < first || first <= next };
            if !begins_after {
                self.slots[gap] = self.slots[next];
                gap = next;
            }
        }
        self.slots[gap] = Cell::EMPTY;
    }

    fn remove_large(&mut self, cell: Cell) {
        let Some(large) = self.large.as_mut().filter(|_| cell.kind() == Kind::Large) else { return };
        let (index, last) = (cell.b(), large.0.len() as u64 - 1);
        large.0.swap_remove(index as usize);
        let is_last = |other: &&mut Cell| other.kind() == Kind::Large && other.b() == last;
        if let Some(moved) = self.slots.iter_mut().find(is_last) {
            *moved = Cell::new(moved.key(), Kind::Large, moved.fill(), moved.expires(), (0, index, 0));
        }
    }

    /// Drops expired cells and returns how many. The page shrinks if it has become half empty.
    pub(super) fn expire(&mut self, now: Micros) -> usize {
        if !self.cells().any(|cell| cell.expired(now)) {
            return 0;
        }
        self.drop_if(|cell| cell.expired(now))
    }

    /// Drops the cells for which `goes` returns true, and returns how many.
    pub(super) fn drop_if(&mut self, mut goes: impl FnMut(&Cell) -> bool) -> usize {
        let old = std::mem::replace(self, Self::new(self.depth));
        let before = old.len();
        old.move_cells(|cell| !goes(cell), &mut [self]);
        before - self.len()
    }

    /// Splits the page by the next bit of the marks: zeros stay, ones move to a new page.
    pub(super) fn split(self) -> (Self, Self) {
        let depth = self.depth + 1;
        let (mut zeros, mut ones) = (Self::new(depth), Self::new(depth));
        self.move_cells(|_| true, &mut [&mut zeros, &mut ones]);
        (zeros, ones)
    }

    /// Merges with the page that differs in the last bit only.
    pub(super) fn merge(self, other: Self) -> Self {
        let mut merged = Self::new(self.depth - 1);
        self.move_cells(|_| true, &mut [&mut merged]);
        other.move_cells(|_| true, &mut [&mut merged]);
        merged
    }

    /// Moves the cells to keep into one page, or into two by the bit after `depth`.
    fn move_cells(mut self, mut keep: impl FnMut(&Cell) -> bool, into: &mut [&mut Self]) {
        let next_bit = 63 - u32::from(self.depth.min(63));
        let large = self.large.take().map_or_else(Vec::new, |large| large.0);
        let mut states: Vec<_> = large.into_iter().map(Some).collect();
        for cell in self.cells().filter(|cell| keep(cell)) {
            let bit = (cell.mark() >> next_bit & 1) as usize;
            let page = &mut *into[if into.len() == 2 { bit } else { 0 }];
            let is_large = cell.kind() == Kind::Large;
            match is_large.then(|| states[cell.b() as usize].take()).flatten() {
                Some(state) => page.insert_large(cell.key(), cell.fill(), cell.expires(), state),
                None => page.insert(*cell),
            }
        }
    }

    /// Returns the slot of the cell to evict first: an expired one, else the emptiest, else the first to expire.
    pub(super) fn lightest(&self, now: Micros) -> Option<usize> {
        let taken = self.slots.iter().enumerate().filter(|(_, cell)| !cell.is_empty());
        taken.min_by_key(|(_, cell)| cell.weight(now)).map(|(slot, _)| slot)
    }
}
