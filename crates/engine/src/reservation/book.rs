//! Reservations of this process, with bounds.
//!
//! All clients share the book, so no single one may fill it. A domain may hold as many reservations as are free,
//! which is half of the book if it is the only one. Requests with the same descriptors (one holder) may hold a
//! hundredth of what their domain has left, and at most 10,000. As the book fills up these shares shrink, so the
//! domains and holders with the most reservations are refused first, and those with few still find room.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use tidegate_core::Micros;

use super::ReserveError;
use super::id::ReservationId;
use super::record::{MOST_BYTES, Record};

/// The most records that are dropped in one step, because the lock is held meanwhile.
const STEP: usize = 1_000;

/// The average size of the texts of a reservation for which the book has room.
const USUAL_BYTES: usize = 512;

/// The divisor for the share of the free room that one holder may use.
const HOLDERS: usize = 100;

/// What one holder may use as long as there is room for a few times as many, and a domain may use in any case.
const FEWEST: usize = 16;

/// The most reservations of one holder.
const MOST_OF_HOLDER: usize = 10_000;

/// The most claims that are kept. If there are more, all are dropped.
const MOST_CLAIMS: usize = 10_000;

/// Reservations by ID.
pub(crate) struct Book {
    most: usize,
    most_bytes: usize,
    kept: Mutex<Shelf>,
    /// The claims with which this process requested records from the shared store without getting a reply.
    claims: Mutex<HashMap<ReservationId, u64>>,
}

/// The holder of a reservation: fingerprints of its domain, and of its domain and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) domain: u64,
    pub(super) whole: u64,
}

#[derive(Default)]
struct Shelf {
    records: HashMap<ReservationId, Kept>,
    by_end: BTreeSet<(Micros, ReservationId)>,
    /// The total of all records and promised places.
    all: Held,
    /// What is held by domain, and by holder; without those that hold nothing.
    domains: HashMap<u64, Held>,
    holders: HashMap<u64, Held>,
}

/// A reservation that is not settled yet.
pub(super) struct Kept {
    pub(super) until: Micros,
    pub(super) holder: Holder,
    pub(super) record: Box<Record>,
}

/// The right to remove a record from the shared store, and to repeat that if there was no reply.
pub(super) struct Claim {
    pub(super) number: u64,
    /// Whether the claim was used before without getting a reply.
    pub(super) unanswered: bool,
}

/// A number of reservations and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    count: usize,
    bytes: usize,
}

impl Held {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn subtract(&mut self, bytes: usize) {
        self.count -= 1;
        self.bytes -= bytes;
    }
}

/// Room for a record of this many bytes. It becomes free again when dropped, unless it was filled.
pub(super) struct Place<'b> {
    book: &'b Book,
    holder: Holder,
    bytes: usize,
    filled: bool,
}

impl Book {
    pub(crate) fn new(most: usize) -> Self {
        let most_bytes = most.saturating_mul(USUAL_BYTES).max(MOST_BYTES);
        Self { most, most_bytes, kept: Mutex::default(), claims: Mutex::default() }
    }

    /// Returns the number of reservations, including expired ones that are not swept yet.
    pub(crate) fn len(&self) -> usize {
        self.kept.lock().records.len()
    }

    /// Returns the most reservations of one holder, however much room there is.
    pub(super) fn most_of_holder(&self) -> usize {
        (self.most / HOLDERS).clamp(FEWEST, MOST_OF_HOLDER)
    }

    /// Returns the approximate number of bytes of the texts in all reservations.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.lock().all.bytes
    }

    /// Reserves room for a record of this many bytes. Returns an error if there is none.
    pub(super) fn promise(
        &self,
        holder: Holder,
        bytes: usize,
        now: Micros,
    ) -> Result<Place<'_>, ReserveError> {
        let mut kept = self.kept.lock();
        if self.room(&kept, holder, bytes).is_err() {
            kept.sweep(now);
        }
        self.room(&kept, holder, bytes)?;
        kept.add(holder, bytes);
        Ok(Place { book: self, holder, bytes, filled: false })
    }

    fn room(&self, kept: &Shelf, holder: Holder, bytes: usize) -> Result<(), ReserveError> {
        let all = kept.all;
        let free = self.most.saturating_sub(all.count);
        let free_bytes = self.most_bytes.saturating_sub(all.bytes);
        if free == 0 {
            return Err(ReserveError::Full { most: self.most });
        }
        if bytes > free_bytes {
            return Err(ReserveError::FullOfBytes { most: self.most_bytes });
        }
        let of_domain = kept.domains.get(&holder.domain).copied().unwrap_or_default();
        let of_holder = kept.holders.get(&holder.whole).copied().unwrap_or_default();
        // What the domain may still use: it may hold as much as is free, and a few in any case.
        let room = free.max(FEWEST).saturating_sub(of_domain.count);
        let room_bytes = free_bytes.max(FEWEST * MOST_BYTES).saturating_sub(of_domain.bytes);
        if room == 0 || bytes > room_bytes {
            return Err(ReserveError::FullOfDomain { count: of_domain.count });
        }
        let share = (room / HOLDERS).clamp((room / 4).clamp(1, FEWEST), MOST_OF_HOLDER);
        let share_bytes = (room_bytes / HOLDERS).max(room_bytes.min(FEWEST * MOST_BYTES));
        if of_holder.count >= share || of_holder.bytes + bytes > share_bytes {
            return Err(ReserveError::FullOfHolder { count: of_holder.count });
        }
        Ok(())
    }

    /// Removes and returns a reservation that has not expired. No other caller gets it.
    pub(super) fn take(&self, id: ReservationId, now: Micros) -> Option<Kept> {
        let mut kept = self.kept.lock();
        let taken = kept.remove(id)?;
        kept.by_end.remove(&(taken.until, id));
        (now < taken.until).then_some(taken)
    }

    /// Puts back a reservation that was taken but could not be settled. It had room before, so it gets it again,
    /// whatever the shares are now.
    pub(super) fn put_back(&self, id: ReservationId, kept: Kept) {
        self.kept.lock().insert(id, kept);
    }

    /// Returns a claim to remove a record from the shared store: one that was used without a reply, or a new one. No
    /// other caller gets the same claim. Returns `None` if the system has no random bytes.
    pub(super) fn claim(&self, id: ReservationId) -> Option<Claim> {
        match self.claims.lock().remove(&id) {
            Some(number) => Some(Claim { number, unanswered: true }),
            None => Some(Claim { number: getrandom::u64().ok()?, unanswered: false }),
        }
    }

    /// Keeps a claim that got no reply, for the next caller that settles this reservation.
    pub(super) fn keep_claim(&self, id: ReservationId, claim: u64) {
        let mut claims = self.claims.lock();
        if claims.len() >= MOST_CLAIMS {
            claims.clear();
        }
        claims.insert(id, claim);
    }

    /// Drops some of the expired reservations.
    pub(crate) fn sweep(&self, now: Micros) {
        self.kept.lock().sweep(now);
    }
}

impl Shelf {
    fn add(&mut self, holder: Holder, bytes: usize) {
        self.all.add(bytes);
        self.domains.entry(holder.domain).or_default().add(bytes);
        self.holders.entry(holder.whole).or_default().add(bytes);
    }

    fn subtract(&mut self, holder: Holder, bytes: usize) {
        self.all.subtract(bytes);
        let of = [(&mut self.domains, holder.domain), (&mut self.holders, holder.whole)];
        for (held, whose) in of {
            if let Some(of_one) = held.get_mut(&whose) {
                of_one.subtract(bytes);
                if of_one.count == 0 {
                    held.remove(&whose);
                }
            }
        }
    }

    fn insert(&mut self, id: ReservationId, kept: Kept) {
        self.add(kept.holder, kept.record.bytes());
        self.by_end.insert((kept.until, id));
        self.records.insert(id, kept);
    }

    fn remove(&mut self, id: ReservationId) -> Option<Kept> {
        let kept = self.records.remove(&id)?;
        self.subtract(kept.holder, kept.record.bytes());
        Some(kept)
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
    /// Stores a reservation in this place.
    pub(super) fn fill(mut self, id: ReservationId, until: Micros, record: Box<Record>) {
        let mut kept = self.book.kept.lock();
        // The promised size is an estimate of the size of the record.
        kept.subtract(self.holder, self.bytes);
        kept.insert(id, Kept { until, holder: self.holder, record });
        self.filled = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.filled {
            self.book.kept.lock().subtract(self.holder, self.bytes);
        }
    }
}
