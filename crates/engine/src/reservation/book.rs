//! Reservations that are kept in this process, bounded and swept.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use tidegate_core::Micros;

use super::ReserveError;
use super::id::ReservationId;
use super::record::{MOST_BYTES, Record};

/// How many are dropped in one step at most, while others wait.
const STEP: usize = 1_000;

/// Bytes of texts that reservations may have on average.
const USUAL_BYTES: usize = 512;

/// Reservations by their names.
pub(crate) struct Book {
    most: usize,
    most_bytes: usize,
    kept: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    records: HashMap<ReservationId, (Micros, Box<Record>)>,
    by_end: BTreeSet<(Micros, ReservationId)>,
    /// Of all records.
    bytes: usize,
    /// Places that were promised and are not taken yet.
    promised: usize,
    promised_bytes: usize,
}

/// A place that is kept free, for so many bytes; it is free for others when dropped.
pub(super) struct Place<'b>(&'b Book, usize);

impl Book {
    pub(crate) fn new(most: usize) -> Self {
        let most_bytes = most.saturating_mul(USUAL_BYTES).max(MOST_BYTES);
        Self { most, most_bytes, kept: Mutex::default() }
    }

    /// How many there are, ended ones included until they are swept.
    pub(crate) fn len(&self) -> usize {
        self.kept.lock().records.len()
    }

    /// Keeps a place free for a record of so many bytes, if there is one.
    pub(super) fn promise(&self, bytes: usize, now: Micros) -> Result<Place<'_>, ReserveError> {
        let mut kept = self.kept.lock();
        if self.room(&kept, bytes).is_err() {
            kept.sweep(now);
        }
        self.room(&kept, bytes)?;
        kept.promised += 1;
        kept.promised_bytes += bytes;
        Ok(Place(self, bytes))
    }

    fn room(&self, kept: &Shelf, bytes: usize) -> Result<(), ReserveError> {
        if kept.records.len() + kept.promised >= self.most {
            return Err(ReserveError::Full { most: self.most });
        }
        if kept.bytes + kept.promised_bytes + bytes > self.most_bytes {
            return Err(ReserveError::FullOfBytes { most: self.most_bytes });
        }
        Ok(())
    }

    /// Hands a reservation out that has not ended; nobody else gets it.
    pub(super) fn take(&self, id: ReservationId, now: Micros) -> Option<(Micros, Box<Record>)> {
        let mut kept = self.kept.lock();
        let (until, record) = kept.remove(id)?;
        kept.by_end.remove(&(until, id));
        (now < until).then_some((until, record))
    }

    /// Drops some of those that have ended.
    pub(crate) fn sweep(&self, now: Micros) {
        self.kept.lock().sweep(now);
    }
}

impl Shelf {
    fn remove(&mut self, id: ReservationId) -> Option<(Micros, Box<Record>)> {
        let (until, record) = self.records.remove(&id)?;
        self.bytes -= record.bytes();
        Some((until, record))
    }

    fn sweep(&mut self, now: Micros) {
        for _ in 0..STEP {
            let Some((_, id)) = self.by_end.first().copied().filter(|(until, _)| *until <= now) else {
                break;
            };
            self.by_end.pop_first();
            self.remove(id);
        }
    }
}

impl Place<'_> {
    /// Puts a reservation there.
    pub(super) fn fill(self, id: ReservationId, until: Micros, record: Box<Record>) {
        let mut kept = self.0.kept.lock();
        kept.bytes += record.bytes();
        kept.by_end.insert((until, id));
        kept.records.insert(id, (until, record));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut kept = self.0.kept.lock();
        kept.promised -= 1;
        kept.promised_bytes -= self.1;
    }
}
