//! The connections of one listener: how many there may be, and who goes when it is full.
//!
//! A connection that has sent nothing yet, or only a piece of a request, costs its sender next to nothing, and
//! enough of them would keep everybody else out. So a full listener does not refuse whoever comes last: the
//! oldest connection that has not got an answer yet makes room, and where there is none, an old one that is
//! kept open without a request. Whoever sends a request at once has it answered long before it is the oldest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::stream::Pulse;

/// A first request that is being answered for longer is taken for one whose body does not come.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// Connections that may be on their way out at once. Until they are closed they still are open files.
const MOST_LEAVING: usize = 16;
/// How many connections are looked at to find one that can go.
const MOST_LOOKED_AT: usize = 256;

/// Whose connections these are, and so which of them may be made to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Only HTTP/2 is spoken, by a server that ends idle connections itself: whoever has not begun to goes.
    Http2,
    /// Whoever is not being answered goes, or sends a body too slowly.
    Http,
    /// Whoever is not being answered goes. How many are answered at once has a bound of its own there.
    Admin,
}

/// The connections of a listener.
#[derive(Debug)]
pub struct Guests {
    most: usize,
    manners: Manners,
    table: Mutex<Table>,
    /// Told when one that had to leave has closed; the acceptor waits for it.
    left: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// Those that have got no answer yet, oldest first.
    fresh: BTreeMap<u64, Arc<Guest>>,
    /// The others, oldest first.
    known: BTreeMap<u64, Arc<Guest>>,
    /// Those that have been told to leave and have not closed yet.
    leaving: usize,
}

/// One connection.
#[derive(Debug)]
pub struct Guest {
    number: u64,
    since: Instant,
    /// Its signs of life.
    pub pulse: Arc<Pulse>,
    leave: Notify,
}

impl Guest {
    /// Returns when the connection has to make room.
    pub async fn asked_to_leave(&self) {
        self.leave.notified().await;
    }
}

impl Guests {
    /// A listener of at most so many connections.
    pub fn new(most: usize, manners: Manners) -> Self {
        Self { most, manners, table: Mutex::default(), left: Notify::new() }
    }

    /// The most connections at once.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Connections that are there.
    pub fn count(&self) -> usize {
        self.table.lock().count()
    }

    /// Returns once few enough are on their way out that one more may be told to leave. For one acceptor.
    pub async fn settled(&self) {
        while self.table.lock().leaving >= MOST_LEAVING {
            self.left.notified().await;
        }
    }

    /// Takes a connection in; another one may have to leave for it. `None` if there is no room, `true` if one
    /// has to leave.
    pub fn admit(&self, now: Instant) -> Option<(Arc<Guest>, bool)> {
        let mut table = self.table.lock();
        let is_full = table.fresh.len() + table.known.len() >= self.most;
        if is_full {
            let leaving = table.remove_one(self.manners, now)?;
            leaving.leave.notify_one();
            table.leaving += 1;
        }
        let number = table.next;
        table.next += 1;
        let guest = Guest { number, since: now, pulse: Arc::default(), leave: Notify::new() };
        let guest = Arc::new(guest);
        table.fresh.insert(number, Arc::clone(&guest));
        Some((guest, is_full))
    }

    /// Counts a connection out that has ended.
    pub fn leave(&self, guest: &Guest) {
        let mut table = self.table.lock();
        if table.fresh.remove(&guest.number).is_none() && table.known.remove(&guest.number).is_none() {
            table.leaving -= 1;
            self.left.notify_one();
        }
    }
}

impl Table {
    fn count(&self) -> usize {
        self.fresh.len() + self.known.len() + self.leaving
    }

    /// Takes out the one that makes room.
    fn remove_one(&mut self, manners: Manners, now: Instant) -> Option<Arc<Guest>> {
        let mut busy = Vec::new();
        let mut found = None;
        while busy.len() < MOST_LOOKED_AT
            && let Some((number, guest)) = self.fresh.pop_first()
        {
            if is_known(&guest, manners) {
                self.known.insert(number, guest);
                continue;
            }
            let is_slow = manners == Manners::Http && now - guest.since >= FIRST_ANSWER;
            if guest.pulse.in_flight() == 0 || is_slow {
                found = Some(guest);
                break;
            }
            busy.push((number, guest));
        }
        self.fresh.extend(busy);
        if found.is_some() || manners == Manners::Http2 {
            return found;
        }
        let mut looked_at = self.known.iter().take(MOST_LOOKED_AT);
        let idle = looked_at.find(|(_, guest)| guest.pulse.in_flight() == 0);
        let number = idle.map(|(number, _)| *number)?;
        self.known.remove(&number)
    }
}

/// Whether a connection has shown what it is there for.
fn is_known(guest: &Guest, manners: Manners) -> bool {
    match manners {
        Manners::Http2 => guest.pulse.multiplexed(),
        Manners::Http | Manners::Admin => guest.pulse.finished() > 0,
    }
}
