//! The open connections of a listener: their limit, and which connection is closed when the limit is reached.
//!
//! A connection that has sent nothing yet, or only part of a request, costs its sender almost nothing, and enough of
//! them would keep all other clients out. So a full listener does not refuse a new connection. It closes the oldest
//! connection that has not had a response yet, or if there is none, the one that has been idle for longest. A client
//! that sends its request at once is served long before its connection is the oldest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::stream::Activity;

/// How long the first request of a connection may take before its connection can be evicted as slow.
const FIRST_RESPONSE: Duration = Duration::from_secs(1);

/// Maximum number of evicted connections that are still closing. Each is an open file until it is closed.
const MAX_CLOSING: usize = 16;
/// Maximum number of connections examined to find one to evict.
const MAX_EXAMINED: usize = 256;

/// Which connection a full listener closes to make room for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// A connection without a request in progress, or whose first request takes too long.
    IdleOrSlow,
    /// A connection without a request in progress.
    Idle,
}

/// The open connections of a listener.
#[derive(Debug)]
pub struct ConnectionTable {
    max: usize,
    eviction: Eviction,
    /// The time origin of the connections' timestamps.
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
    /// All other connections, by the time of their last activity and their number. The time is updated lazily.
    known: BTreeMap<(u64, u64), Arc<Entry>>,
    /// Connections that were evicted and have not closed yet.
    closing: usize,
}

/// One open connection.
#[derive(Debug)]
pub struct Entry {
    number: u64,
    since: Instant,
    /// The activity of the connection.
    pub activity: Arc<Activity>,
    /// The time under which the entry is stored in `known`. Changes only while the table is locked.
    filed_us: AtomicU64,
    evict: Notify,
}

impl Entry {
    /// Waits until the connection is evicted to make room for another.
    pub async fn evicted(&self) {
        self.evict.notified().await;
    }
}

impl ConnectionTable {
    /// Returns an empty table for at most `max` connections.
    pub fn new(max: usize, eviction: Eviction) -> Self {
        Self { max, eviction, base: Instant::now(), entries: Mutex::default(), closed: Notify::new() }
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        let entries = self.entries.lock();
        entries.fresh.len() + entries.known.len() + entries.closing
    }

    /// Waits until few enough connections are closing that another may be evicted. Supports a single waiter, the
    /// acceptor.
    pub async fn settled(&self) {
        while self.entries.lock().closing >= MAX_CLOSING {
            self.closed.notified().await;
        }
    }

    /// Adds a connection. Returns its entry and whether another connection was evicted for it, or `None` if there is
    /// no room.
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
    /// Removes and returns the connection to evict, if there is one.
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

    /// Removes and returns the known connection that has been idle for longest.
    fn remove_idle(&mut self) -> Option<Arc<Entry>> {
        for _ in 0..MAX_EXAMINED {
            let ((filed_us, _), entry) = self.known.pop_first()?;
            let is_busy = entry.activity.in_flight() > 0;
            if !is_busy && entry.activity.active_us() <= filed_us {
                return Some(entry);
            }
            // The connection has been active since it was stored: try the others first.
            let newest_us = self.known.last_key_value().map_or(0, |((last_us, _), _)| *last_us);
            self.file(entry, if is_busy { newest_us } else { 0 });
        }
        None
    }

    /// Stores a connection under the time of its last activity, but not earlier than `least_us`.
    fn file(&mut self, entry: Arc<Entry>, least_us: u64) {
        let filed_us = entry.activity.active_us().max(least_us);
        entry.filed_us.store(filed_us, Relaxed);
        self.known.insert((filed_us, entry.number), entry);
    }
}
