//! The bounded queue of records for the writer. Changes are written before denials.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::record::Lost;
use crate::settings::Settings;

/// The bounds of a batch, so that its last line is on the disk soon after its first.
const BATCH_RECORDS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Receives the number of a record once that is on the disk.
pub(crate) type Ack = oneshot::Sender<u64>;

/// An encoded record that waits to be written.
pub(crate) struct PendingRecord {
    pub(crate) text: String,
    pub(crate) ack: Option<Ack>,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Change,
    Denial,
}

/// The records that the writer writes next.
pub(crate) struct Work {
    pub(crate) records: Vec<PendingRecord>,
    /// The number of records of each kind.
    pub(crate) of: Lost,
    /// The records that did not fit into the queue since the previous batch.
    pub(crate) missing: Lost,
}

/// The bounded buffer between the callers that record and the writer. The lock is held only to move a few
/// words, never while anything is written.
pub(crate) struct Queue {
    held: Mutex<Held>,
    /// Signals that there may be work, or that it is time to end.
    work: Condvar,
    /// Signals that the writer has ended.
    ended: Condvar,
    max_records: usize,
    max_bytes: usize,
    /// The number of denials that are written without waiting for more.
    enough: usize,
}

#[derive(Default)]
struct Held {
    changes: Lane,
    denials: Lane,
    /// Records that did not fit and are not mentioned by any line yet.
    missing: Lost,
    /// All records that did not fit.
    full: Lost,
    /// Records that fitted but were never written.
    unwritten: Lost,
    /// Whether no more records are accepted. The writer ends when everything is written.
    closing: bool,
    /// Whether the writer has to end now.
    abandoned: bool,
    ended: bool,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<PendingRecord>,
    bytes: usize,
}

impl Lane {
    fn push(&mut self, waiting: PendingRecord) {
        self.bytes += waiting.text.len();
        self.waiting.push_back(waiting);
    }

    fn pop(&mut self) -> Option<PendingRecord> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.text.len();
        Some(waiting)
    }

    fn fits(&self, text: &str, records: usize, bytes: usize) -> bool {
        self.waiting.len() < records && self.bytes + text.len() <= bytes
    }
}

impl Kind {
    fn one(self) -> Lost {
        match self {
            Self::Change => Lost { changes: 1, denials: 0 },
            Self::Denial => Lost { changes: 0, denials: 1 },
        }
    }
}

impl Queue {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            held: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
            max_records: settings.buffer_records.max(2),
            max_bytes: settings.buffer_bytes.max(2),
            enough: (settings.buffer_records / 4).clamp(1, BATCH_RECORDS),
        }
    }

    /// Adds a record. If it does not fit, it is counted as missing, and its `ack` is dropped.
    pub(crate) fn push(&self, kind: Kind, waiting: PendingRecord) {
        let mut held = self.held.lock();
        if held.closing {
            held.unwritten += kind.one();
            return;
        }
        let fits = match kind {
            Kind::Change => self.make_room(&mut held, &waiting.text),
            Kind::Denial => {
                let both = held.changes.waiting.len() + held.denials.waiting.len() < self.max_records;
                both && held.denials.fits(&waiting.text, self.max_records / 2, self.max_bytes / 2)
            }
        };
        if !fits {
            held.lose(kind);
            return;
        }
        let lane = match kind {
            Kind::Change => &mut held.changes,
            Kind::Denial => &mut held.denials,
        };
        lane.push(waiting);
        let wakes = [1, self.enough].contains(&lane.waiting.len());
        drop(held);
        if wakes {
            self.work.notify_one();
        }
    }

    /// Returns whether a change fits, after dropping denials to make room for it.
    fn make_room(&self, held: &mut Held, text: &str) -> bool {
        while !held.changes.fits(
            text,
            self.max_records - held.denials.waiting.len(),
            self.max_bytes.saturating_sub(held.denials.bytes),
        ) {
            if held.denials.pop().is_none() {
                return false;
            }
            held.lose(Kind::Denial);
        }
        true
    }

    /// Waits for records. If there are only denials, waits for `gather`, so that several share a write.
    /// Returns `None` if there will be no more.
    pub(crate) fn next(&self, gather: Duration) -> Option<Work> {
        let mut held = self.held.lock();
        let idle = |held: &mut Held| held.is_empty() && !held.closing;
        self.work.wait_while(&mut held, idle);
        if held.changes.waiting.is_empty() {
            let alone = |held: &mut Held| {
                held.changes.waiting.is_empty() && held.denials.waiting.len() < self.enough && !held.closing
            };
            self.work.wait_while_for(&mut held, alone, gather);
        }
        if held.is_empty() || held.abandoned {
            return None;
        }
        let mut work = Work { records: Vec::new(), of: Lost::default(), missing: Lost::default() };
        let mut bytes = 0;
        while work.records.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let (waiting, kind) = match held.changes.pop() {
                Some(change) => (Some(change), Kind::Change),
                None => (held.denials.pop(), Kind::Denial),
            };
            let Some(waiting) = waiting else { break };
            bytes += waiting.text.len();
            work.of += kind.one();
            work.records.push(waiting);
        }
        work.missing = std::mem::take(&mut held.missing);
        Some(work)
    }

    /// Waits before the writer tries again. Returns false if it should end instead.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let mut held = self.held.lock();
        self.work.wait_while_for(&mut held, |held| !held.abandoned, pause);
        !held.abandoned
    }

    /// Counts records that the writer had taken but could not write.
    pub(crate) fn give_up(&self, lost: Lost) {
        self.held.lock().unwritten += lost;
    }

    /// Accepts no more records. The writer ends when everything is written.
    pub(crate) fn begin_closing(&self) {
        self.held.lock().closing = true;
        self.work.notify_all();
    }

    /// Waits until the writer has ended. At the deadline the writer is told to give up. Returns whether
    /// everything was written.
    pub(crate) fn close(&self, deadline: Duration) -> bool {
        self.begin_closing();
        let mut held = self.held.lock();
        self.ended.wait_while_for(&mut held, |held| !held.ended, deadline);
        held.abandoned = true;
        drop(held);
        self.work.notify_all();
        let mut held = self.held.lock();
        // A writer that waits for the disk cannot be interrupted; one that waits to retry ends at once.
        self.ended.wait_while_for(&mut held, |held| !held.ended, Duration::from_secs(1));
        held.count_rest();
        held.ended && held.unwritten == Lost::default()
    }

    /// Records that the writer has ended.
    pub(crate) fn end(&self) {
        let mut held = self.held.lock();
        held.ended = true;
        held.closing = true;
        held.count_rest();
        drop(held);
        self.ended.notify_all();
    }

    /// Returns the records that did not fit, and those that fitted but were not written.
    pub(crate) fn lost(&self) -> (Lost, Lost) {
        let held = self.held.lock();
        (held.full, held.unwritten)
    }

    /// Returns the number of records that wait.
    pub(crate) fn len(&self) -> usize {
        let held = self.held.lock();
        held.changes.waiting.len() + held.denials.waiting.len()
    }
}

impl Held {
    fn is_empty(&self) -> bool {
        self.changes.waiting.is_empty() && self.denials.waiting.is_empty()
    }

    fn lose(&mut self, kind: Kind) {
        self.missing += kind.one();
        self.full += kind.one();
    }

    /// Counts everything that still waits as not written.
    fn count_rest(&mut self) {
        while self.changes.pop().is_some() {
            self.unwritten += Kind::Change.one();
        }
        while self.denials.pop().is_some() {
            self.unwritten += Kind::Denial.one();
        }
    }
}
