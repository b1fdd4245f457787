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
    kept: Mutex<Shelf>,
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
        Self { most, kept: Mutex::default() }
    }

    /// How many there may be.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// How many there are, ended ones included until they are swept.
    pub(crate) fn len(&self) -> usize {
        self.kept.lock().records.len()
    }

    /// Keeps a place free, if there is one.
    pub(super) fn promise(&self, now: Micros) -> Option<Place<'_>> {
        let mut kept = self.kept.lock();
        if kept.taken() >= self.most {
            kept.sweep(now);
        }
        if kept.taken() >= self.most {
            return None;
        }
        kept.promised += 1;
        Some(Place(self))
    }

    /// Hands a reservation out that has not ended; nobody else gets it.
    pub(super) fn take(&self, id: ReservationId, now: Micros) -> Option<(Micros, Box<Record>)> {
        let mut kept = self.kept.lock();
        let (until, record) = kept.records.remove(&id)?;
        kept.by_end.remove(&(until, id));
        (now < until).then_some((until, record))
    }

    /// Drops some of those that have ended.
    pub(crate) fn sweep(&self, now: Micros) {
        self.kept.lock().sweep(now);
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
        let mut kept = self.0.kept.lock();
        kept.by_end.insert((until, id));
        kept.records.insert(id, (until, record));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.kept.lock().promised -= 1;
    }
}
