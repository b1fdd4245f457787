//! Reservations that are kept in this process, bounded and swept.
//!
//! The book is shared by everybody, so nobody may fill it alone. Those of one domain may have as many waiting to
//! be settled as are free, which is half of the book if they are alone; those with the same descriptors (one
//! holder) a hundredth of what is then left to their domain, and 10,000 at most. As the book fills up, shares
//! shrink, so that it is those who hold most who are refused, and whoever holds little finds room.

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

/// Of what is free, one holder may have this part, as a divisor.
const HOLDERS: usize = 100;

/// So many one holder may have as long as there is room for a few times as many, and a domain in any case.
const FEWEST: usize = 16;

/// So many one holder may have at most.
const MOST_OF_HOLDER: usize = 10_000;

/// So many claims are kept; when there are more, all are forgotten.
const MOST_CLAIMS: usize = 10_000;

/// Reservations by their names.
pub(crate) struct Book {
    most: usize,
    most_bytes: usize,
    kept: Mutex<Shelf>,
    /// By which claims this process has asked the shared store for records and got no reply.
    claims: Mutex<HashMap<ReservationId, u64>>,
}

/// Who holds a reservation: fingerprints of the domain, and of domain and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) domain: u64,
    pub(super) whole: u64,
}

#[derive(Default)]
struct Shelf {
    records: HashMap<ReservationId, Kept>,
    by_end: BTreeSet<(Micros, ReservationId)>,
    /// Of all records and promises.
    all: Held,
    /// What is held by domain, and by holder; only of those that have some.
    domains: HashMap<u64, Held>,
    holders: HashMap<u64, Held>,
}

/// A reservation that waits to be settled.
pub(super) struct Kept {
    pub(super) until: Micros,
    pub(super) holder: Holder,
    pub(super) record: Box<Record>,
}

/// The right to take a record out of the shared store, again if there was no reply.
pub(super) struct Claim {
    pub(super) number: u64,
    /// Whether somebody has used it and got no reply.
    pub(super) unanswered: bool,
}

/// How much is held.
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

/// A place that is kept free, for so many bytes; it is free for others when dropped.
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

    /// How many there are, ended ones included until they are swept.
    pub(crate) fn len(&self) -> usize {
        self.kept.lock().records.len()
    }

    /// How many one holder may have at most, however much is free.
    pub(super) fn most_of_holder(&self) -> usize {
        (self.most / HOLDERS).clamp(FEWEST, MOST_OF_HOLDER)
    }

    /// Bytes of the texts in them, about.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.lock().all.bytes
    }

    /// Keeps a place free for a record of so many bytes, if there is one.
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
        // What the domain may still have: it may hold as much as is free, and a few in any case.
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

    /// Hands a reservation out that has not ended; nobody else gets it.
    pub(super) fn take(&self, id: ReservationId, now: Micros) -> Option<Kept> {
        let mut kept = self.kept.lock();
        let taken = kept.remove(id)?;
        kept.by_end.remove(&(taken.until, id));
        (now < taken.until).then_some(taken)
    }

    /// Puts a reservation back that was taken and could not be settled. It had its place before, so it has it
    /// again, whatever the shares are by now.
    pub(super) fn put_back(&self, id: ReservationId, kept: Kept) {
        self.kept.lock().insert(id, kept);
    }

    /// Returns the claim by which a record is taken out of the shared store: that of somebody who got no reply, or a
    /// new one. Nobody else gets the same; `None` if the system has no random bytes.
    pub(super) fn claim(&self, id: ReservationId) -> Option<Claim> {
        match self.claims.lock().remove(&id) {
            Some(number) => Some(Claim { number, unanswered: true }),
            None => Some(Claim { number: getrandom::u64().ok()?, unanswered: false }),
        }
    }

    /// Keeps the claim of somebody who got no reply, for the next one who settles that reservation.
    pub(super) fn keep_claim(&self, id: ReservationId, claim: u64) {
        let mut claims = self.claims.lock();
        if claims.len() >= MOST_CLAIMS {
            claims.clear();
        }
        claims.insert(id, claim);
    }

    /// Drops some of those that have ended.
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
    /// Puts a reservation there.
    pub(super) fn fill(mut self, id: ReservationId, until: Micros, record: Box<Record>) {
        let mut kept = self.book.kept.lock();
        // What was promised is about what the record takes.
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
