//! Reservations that are kept in this process, bounded and swept.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use tidegate_core::Micros;

use super::id::ReservationId;
use super::record::Record;

/// How many are dropped in one step at most, while others wait.
const STEP: usize = 1_000;

/// Reservations by their names.
pub(crate) struct Book {
    most: usize,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    records: HashMap<ReservationId, (Micros, Box<Record>)>,
    by_end: BTreeSet<(Micros, ReservationId)>,
    /// Places that were promised and are not taken yet.
    promised: usize,
}

/// A place that is kept free; it is free for others when dropped.
pub(super) struct Place<'b>(&'b Book);

impl Book {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, shelf: Mutex::default() }
    }

    /// How many there may be.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// How many there are, ended ones included until they are swept.
    pub(crate) fn len(&self) -> usize {
        self.shelf.lock().records.len()
    }

    /// Keeps a place free, if there is one.
    pub(super) fn promise(&self, now: Micros) -> Option<Place<'_>> {
        let mut shelf = self.shelf.lock();
        if shelf.taken() >= self.most {
            shelf.sweep(now);
        }
        if shelf.taken() >= self.most {
            return None;
        }
        shelf.promised += 1;
        Some(Place(self))
    }

    /// Hands a reservation out that has not ended; nobody else gets it.
    pub(super) fn take(&self, id: ReservationId, now: Micros) -> Option<(Micros, Box<Record>)> {
        let mut shelf = self.shelf.lock();
        let (until, record) = shelf.records.remove(&id)?;
        shelf.by_end.remove(&(until, id));
        (now < until).then_some((until, record))
    }

    /// Drops some of those that have ended.
    pub(crate) fn sweep(&self, now: Micros) {
        self.shelf.lock().sweep(now);
    }
}

impl Shelf {
    fn taken(&self) -> usize {
        self.records.len() + self.promised
    }

    fn sweep(&mut self, now: Micros) {
        for _ in 0..STEP {
            let Some((_, id)) = self.by_end.first().copied().filter(|(until, _)| *until <= now) else {
                break;
            };
            self.by_end.pop_first();
            self.records.remove(&id);
        }
    }
}

impl Place<'_> {
    /// Puts a reservation there.
    pub(super) fn fill(self, id: ReservationId, until: Micros, record: Box<Record>) {
        let mut shelf = self.0.shelf.lock();
        shelf.by_end.insert((until, id));
        shelf.records.insert(id, (until, record));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.shelf.lock().promised -= 1;
    }
}
