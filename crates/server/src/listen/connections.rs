//! The open connections of one listener: how many there may be, and which one is closed when it is full.
//!
//! A connection that has sent nothing yet, or only a piece of a request, costs its sender next to nothing, and
//! enough of them would keep everybody else out. So a full listener does not refuse the newest connection: the oldest
//! one that has not had a response yet is closed for it, and if there is none, an old one that is kept open without a
//! request. A client that sends its request at once is answered long before its connection is the oldest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::stream::Activity;

/// If the first request takes longer to answer than this, its body is assumed to be missing.
const FIRST_RESPONSE: Duration = Duration::from_secs(1);

/// Connections that may be closing at once. They are open files until they are closed.
const MAX_CLOSING: usize = 16;
/// How many connections are examined to find one that can be closed.
const MAX_EXAMINED: usize = 256;

/// Which connection of a full listener is closed for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The oldest that has not begun to speak HTTP/2. The server ends idle connections itself.
    NotBegun,
    /// The oldest without a request in progress, or whose first request takes too long.
    IdleOrSlow,
    /// The oldest without a request in progress.
    Idle,
}

/// The open connections of a listener.
#[derive(Debug)]
pub struct ConnectionTable {
    max: usize,
    eviction: Eviction,
    entries: Mutex<Entries>,
    /// Notified when an evicted connection has closed; the acceptor waits for it.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// Connections without a response yet, oldest first.
    fresh: BTreeMap<u64, Arc<Entry>>,
    /// All others, oldest first.
    known: BTreeMap<u64, Arc<Entry>>,
    /// Connections that were evicted and have not closed yet.
    closing: usize,
}

/// One open connection.
#[derive(Debug)]
pub struct Entry {
    number: u64,
    since: Instant,
    /// Its signs of life.
    pub activity: Arc<Activity>,
    evict: Notify,
}

impl Entry {
    /// Waits until the connection has to close for another.
    pub async fn evicted(&self) {
        self.evict.notified().await;
    }
}

impl ConnectionTable {
    /// Returns an empty table for at most `max` connections.
    pub fn new(max: usize, eviction: Eviction) -> Self {
        Self { max, eviction, entries: Mutex::default(), closed: Notify::new() }
    }

    /// Returns how many connections are open.
    pub fn count(&self) -> usize {
        let entries = self.entries.lock();
        entries.fresh.len() + entries.known.len() + entries.closing
    }

    /// Waits until few enough connections are closing that another may be evicted. For a single acceptor.
    pub async fn settled(&self) {
        while self.entries.lock().closing >= MAX_CLOSING {
            self.closed.notified().await;
        }
    }

    /// Adds a connection. Returns its entry and whether another one was evicted for it, or `None` if there is no
    /// room.
    pub fn admit(&self, now: Instant) -> Option<(Arc<Entry>, bool)> {
        let mut entries = self.entries.lock();
        let is_full = entries.fresh.len() + entries.known.len() >= self.max;
        if is_full {
            let evicted = entries.remove_one(self.eviction, now)?;
            evicted.evict.notify_one();
            entries.closing += 1;
        }
        let number = entries.next;
        entries.next += 1;
        let entry = Arc::new(Entry { number, since: now, activity: Arc::default(), evict: Notify::new() });
        entries.fresh.insert(number, Arc::clone(&entry));
        Some((entry, is_full))
    }

    /// Removes a connection that has closed.
    pub fn remove(&self, entry: &Entry) {
        let mut entries = self.entries.lock();
        if entries.fresh.remove(&entry.number).is_none() && entries.known.remove(&entry.number).is_none() {
            entries.closing -= 1;
            self.closed.notify_one();
        }
    }
}

impl Entries {
    /// Removes the connection to evict, if there is one.
    fn remove_one(&mut self, eviction: Eviction, now: Instant) -> Option<Arc<Entry>> {
        let mut busy = Vec::new();
        let mut found = None;
        while busy.len() < MAX_EXAMINED
            && let Some((number, entry)) = self.fresh.pop_first()
        {
            if is_known(&entry, eviction) {
                self.known.insert(number, entry);
                continue;
            }
            let is_slow = eviction == Eviction::IdleOrSlow && now - entry.since >= FIRST_RESPONSE;
            if entry.activity.in_flight() == 0 || is_slow {
                found = Some(entry);
                break;
            }
            busy.push((number, entry));
        }
        self.fresh.extend(busy);
        if found.is_some() || eviction == Eviction::NotBegun {
            return found;
        }
        let mut examined = self.known.iter().take(MAX_EXAMINED);
        let idle = examined.find(|(_, entry)| entry.activity.in_flight() == 0);
        let number = idle.map(|(number, _)| *number)?;
        self.known.remove(&number)
    }
}

/// Returns whether a connection has been of use.
fn is_known(entry: &Entry, eviction: Eviction) -> bool {
    match eviction {
        Eviction::NotBegun => entry.activity.multiplexed(),
        Eviction::IdleOrSlow | Eviction::Idle => entry.activity.finished() > 0,
    }
}
