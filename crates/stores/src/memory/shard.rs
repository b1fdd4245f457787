//! A shard: pages under one lock, found through a directory (extendible hashing).
//!
//! The directory is indexed by the leading bits of a cell's mark, so each page covers a contiguous range of marks. A
//! walk over the ranges visits every cell that stays, whatever splits and merges happen between its steps.

use tidegate_core::{Micros, State};

use super::cell::{Cell, CellKey};
use super::page::{PAGE_CELLS, Page};

pub(super) struct Shard {
    /// Page numbers by the leading `depth` bits of the mark.
    directory: Vec<u32>,
    depth: u8,
    pages: Vec<Page>,
    /// Numbers of pages that are unused since they were merged.
    vacant: Vec<u32>,
    len: usize,
    max_len: usize,
    /// Maximum depth of the directory. Fingerprints never fill a page at that depth.
    max_depth: u8,
    /// The key that was added last. It has a cell as long as the shard is full: removing that cell makes room, and
    /// the key that takes the room becomes the newcomer.
    newcomer: CellKey,
    pub(super) evicted: u64,
    /// The most cells touched while the lock was held, apart from the charges themselves.
    pub(super) longest_step: usize,
    /// The mark at which the next sweep continues; `None` at the end of a round.
    pub(super) swept_to: Option<u64>,
}

/// A directory that is 256 times as long as full pages need has less than one key per entry.
const SPARE_DEPTH: u32 = 8;

/// How far a new key looks for a cell to evict: in its own page, and in the following pages until it has seen this
/// many cells or pages. Its own page is enough unless most of it has expired.
const REACH_CELLS: usize = PAGE_CELLS / 4;
const REACH_PAGES: usize = 16;

/// The page of a key in a shard, and the slot of its cell, if it has one.
#[derive(Clone, Copy)]
pub(super) struct CellIndex {
    pub(super) page: u32,
    pub(super) slot: Option<usize>,
}

impl Shard {
    pub(super) fn new(max_len: usize) -> Self {
        Self {
            directory: vec![0],
            depth: 0,
            pages: vec![Page::new(0)],
            vacant: Vec::new(),
            len: 0,
            max_len,
            max_depth: ((max_len / PAGE_CELLS + 1).ilog2() + SPARE_DEPTH) as u8,
            newcomer: CellKey { mark: 0, home: 0 },
            evicted: 0,
            longest_step: 0,
            swept_to: Some(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the next new key evicts another.
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.max_len
    }

    #[inline]
    fn index(&self, mark: u64) -> usize {
        // Shifting by 64 is not defined, so depth 0 shifts twice.
        (mark >> 1 >> (u32::from(self.depth) ^ 63)) as usize
    }

    #[inline]
    pub(super) fn find(&self, key: CellKey) -> CellIndex {
        let page = self.directory[self.index(key.mark)];
        CellIndex { page, slot: self.pages[page as usize].find(key) }
    }

    /// Returns the cell of a key, if it has one.
    #[inline]
    pub(super) fn cell_mut(&mut self, key: CellKey) -> Option<&mut Cell> {
        let page = self.directory[self.index(key.mark)];
        self.pages[page as usize].cell_mut(key)
    }

    /// Returns the cell and the state of a key whose state is too large for a cell.
    #[inline]
    pub(super) fn large_mut(&mut self, key: CellKey) -> Option<(&mut Cell, &mut State)> {
        let page = self.directory[self.index(key.mark)];
        self.pages[page as usize].large_of_key(key)
    }

    #[inline]
    pub(super) fn page(&self, page: u32) -> &Page {
        &self.pages[page as usize]
    }

    #[inline]
    pub(super) fn page_mut(&mut self, page: u32) -> &mut Page {
        &mut self.pages[page as usize]
    }

    /// Makes room for one more cell of `key` and returns its page.
    ///
    /// When the shard is full, it evicts the lightest cell of that page, unless that is at its limit: then it evicts
    /// the key that was added last to the shard. So a flood of new keys evicts its own keys: they are lighter than
    /// those in use, or, once they have used up their limits, the last added.
    pub(super) fn make_room(&mut self, key: CellKey, now: Micros) -> u32 {
        let mut touched = 0;
        if self.is_full() {
            touched += self.displace(self.directory[self.index(key.mark)], now);
        }
        let mut page = self.directory[self.index(key.mark)];
        if self.page(page).is_full() {
            touched += PAGE_CELLS;
            self.len -= self.page_mut(page).expire(now);
        }
        while self.page(page).is_full() {
            touched += PAGE_CELLS;
            if self.page(page).depth >= self.max_depth {
                // Fingerprints never get here; for other keys, any cell may be evicted.
                if let Some(slot) = self.page(page).lightest(now) {
                    self.evict(page, slot, now);
                }
                break;
            }
            self.split(page, self.index(key.mark));
            page = self.directory[self.index(key.mark)];
        }
        if self.page(page).must_grow() {
            touched += self.page(page).len();
        }
        self.newcomer = key;
        self.longest_step = self.longest_step.max(touched);
        self.len += 1;
        page
    }

    /// Evicts one cell of a full shard: the lightest of a page, or the key that was added last if all cells within
    /// reach are at their limits. Returns how many cells it examined.
    fn displace(&mut self, nearest: u32, now: Micros) -> usize {
        let (count, mut touched) = (self.pages.len() as u32, 0);
        for number in (0..count).map(|step| (nearest + step) % count).take(REACH_PAGES) {
            let page = self.page(number);
            touched += page.len();
            if let Some(slot) = page.lightest(now).filter(|slot| !page.cell(*slot).at_limit(now)) {
                self.evict(number, slot, now);
                return touched;
            }
            if touched >= REACH_CELLS {
                break;
            }
        }
        let CellIndex { page, slot } = self.find(self.newcomer);
        debug_assert!(slot.is_some(), "the key that came last to a full shard has a cell");
        if let Some(slot) = slot {
            self.evict(page, slot, now);
        }
        touched
    }

    fn evict(&mut self, page: u32, slot: usize, now: Micros) {
        self.evicted += u64::from(!self.page(page).cell(slot).expired(now));
        self.remove(page, slot);
    }

    /// Sets the maximum number of cells, drops the lightest cells beyond it, and resets the statistics. Returns the
    /// previous maximum. It visits all cells, so it is only for a shard that is not in use yet.
    pub(super) fn bound(&mut self, max_len: usize, now: Micros) -> usize {
        if let Some(over @ 1..) = self.len.checked_sub(max_len) {
            let mut weights: Vec<_> =
                self.pages.iter().flat_map(|page| page.cells().map(|cell| cell.weight(now))).collect();
            let (lighter, heaviest, _) = weights.select_nth_unstable(over - 1);
            let heaviest = *heaviest;
            // Of the cells with the largest weight to be dropped, drop the first ones.
            let mut as_heavy = over - lighter.iter().filter(|weight| **weight < heaviest).count();
            for page in &mut self.pages {
                self.len -= page.drop_if(|cell| {
                    let weight = cell.weight(now);
                    let tied = weight == heaviest && as_heavy > 0;
                    as_heavy -= usize::from(tied);
                    tied || weight < heaviest
                });
            }
        }
        // The last added key is unknown. The first key to evict must not be at its limit, if there are others.
        let cells = self.pages.iter().flat_map(Page::cells);
        if let Some(lightest) = cells.min_by_key(|cell| cell.weight(now)) {
            self.newcomer = lightest.key();
        }
        (self.evicted, self.longest_step) = (0, 0);
        std::mem::replace(&mut self.max_len, max_len)
    }

    /// Removes a cell.
    pub(super) fn remove(&mut self, page: u32, slot: usize) {
        self.page_mut(page).remove(slot);
        self.len -= 1;
    }

    fn split(&mut self, number: u32, index: usize) {
        if self.page(number).depth == self.depth {
            self.directory = self.directory.iter().flat_map(|page| [*page, *page]).collect();
            self.depth += 1;
            return self.split(number, index * 2);
        }
        let (zeros, ones) = std::mem::take(self.page_mut(number)).split();
        let span = 1_usize << (self.depth - zeros.depth);
        let first = index & !(2 * span - 1);
        *self.page_mut(number) = zeros;
        let sibling = self.add_page(ones);
        self.directory[first + span..first + 2 * span].fill(sibling);
    }

    fn add_page(&mut self, page: Page) -> u32 {
        if let Some(number) = self.vacant.pop() {
            *self.page_mut(number) = page;
            return number;
        }
        self.pages.push(page);
        (self.pages.len() - 1) as u32
    }

    /// Adds a small cell whose key is not in the shard.
    #[inline]
    pub(super) fn insert(&mut self, key: CellKey, now: Micros, cell: Cell) {
        let page = self.make_room(key, now);
        self.page_mut(page).insert(cell);
    }

    /// Adds a large state whose key is not in the shard.
    pub(super) fn insert_large(
        &mut self,
        key: CellKey,
        now: Micros,
        fill: u8,
        expires: Micros,
        state: State,
    ) {
        let page = self.make_room(key, now);
        self.page_mut(page).insert_large(key, fill, expires, state);
    }

    /// Returns the page that covers `mark`, and the last mark it covers.
    pub(super) fn page_at(&self, mark: u64) -> (&Page, u64) {
        let page = self.page(self.directory[self.index(mark)]);
        let rest = u64::MAX.checked_shr(u32::from(page.depth)).unwrap_or(0);
        (page, mark | rest)
    }

    /// Drops expired cells in the next page. Returns false at the end of a round.
    pub(super) fn sweep_step(&mut self, now: Micros) -> bool {
        let Some(mark) = self.swept_to else { return false };
        let number = self.directory[self.index(mark)];
        self.len -= self.page_mut(number).expire(now);
        let last = self.page_at(mark).1;
        let touched = PAGE_CELLS + self.merge(mark);
        self.longest_step = self.longest_step.max(touched);
        self.swept_to = last.checked_add(1);
        self.swept_to.is_some()
    }

    /// Merges the page of `mark` with its sibling if both together fill less than half a page. Returns how many cells
    /// moved.
    fn merge(&mut self, mark: u64) -> usize {
        let index = self.index(mark);
        let number = self.directory[index];
        let depth = self.page(number).depth;
        if depth == 0 {
            return 0;
        }
        let span = 1_usize << (self.depth - depth);
        let first = index & !(2 * span - 1);
        let (zeros, ones) = (self.directory[first], self.directory[first + span]);
        if zeros == ones || self.page(zeros).depth != self.page(ones).depth {
            return 0;
        }
        if self.page(zeros).len() + self.page(ones).len() > PAGE_CELLS / 2 {
            return 0;
        }
        let right = std::mem::take(self.page_mut(ones));
        let left = std::mem::take(self.page_mut(zeros));
        let moved = left.len() + right.len();
        *self.page_mut(zeros) = left.merge(right);
        self.vacant.push(ones);
        self.directory[first..first + 2 * span].fill(zeros);
        moved
    }
}
