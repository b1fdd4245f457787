//! The open connections of one listener: how many there may be, and which one is closed when it is full.
//!
//! A connection that has sent nothing yet, or only a piece of a request, costs its sender next to nothing, and
//! enough of them would keep everybody else out. So a full listener does not refuse the newest connection: the oldest
//! one that has not had a response yet is closed for it, and if there is none, the one that has been without a request
//! for longest. A client that sends its request at once is answered long before its connection is the oldest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
    /// One without a request in progress, or whose first request takes too long.
    IdleOrSlow,
    /// One without a request in progress.
    Idle,
}

/// The open connections of a listener.
#[derive(Debug)]
pub struct ConnectionTable {
    max: usize,
    eviction: Eviction,
    /// The moment that the times of its connections count from.
    base: Instant,
    entries: Mutex<Entries>,
    /// Notified when an evicted connection has closed; the acceptor waits for it.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// Connections without a response yet, oldest first.
    fresh: BTreeMap<u64, Arc<Entry>>,
    /// All others, by when they were last active and by number. The time is brought up to date when it matters.
    known: BTreeMap<(u64, u64), Arc<Entry>>,
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
    /// The time under which it is found among the known ones. Changes only while the table is locked.
    filed_us: AtomicU64,
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
        Self { max, eviction, base: Instant::now(), entries: Mutex::default(), closed: Notify::new() }
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
        let (activity, filed_us) = (Arc::new(Activity::new(self.base)), AtomicU64::new(0));
        let entry = Arc::new(Entry { number, since: now, activity, filed_us, evict: Notify::new() });
        entries.fresh.insert(number, Arc::clone(&entry));
        Some((entry, is_full))
    }

    /// Removes a connection that has closed.
    pub fn remove(&self, entry: &Entry) {
        let mut entries = self.entries.lock();
        let filed = (entry.filed_us.load(Relaxed), entry.number);
        if entries.fresh.remove(&entry.number).is_none() && entries.known.remove(&filed).is_none() {
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
            if entry.activity.finished() > 0 {
                self.file(entry, 0);
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
        found.or_else(|| self.remove_idle())
    }

    /// Removes the known connection that has been without a request for longest.
    fn remove_idle(&mut self) -> Option<Arc<Entry>> {
        for _ in 0..MAX_EXAMINED {
            let ((filed_us, _), entry) = self.known.pop_first()?;
            let is_busy = entry.activity.in_flight() > 0;
            if !is_busy && entry.activity.active_us() <= filed_us {
                return Some(entry);
            }
            // It has been active since, or is: others come first.
            let newest_us = self.known.last_key_value().map_or(0, |((last_us, _), _)| *last_us);
            self.file(entry, if is_busy { newest_us } else { 0 });
        }
        None
    }

    /// Files a connection under the time when it was last active, or under a later one.
    fn file(&mut self, entry: Arc<Entry>, least_us: u64) {
        let filed_us = entry.activity.active_us().max(least_us);
        entry.filed_us.store(filed_us, Relaxed);
        self.known.insert((filed_us, entry.number), entry);
    }
}
