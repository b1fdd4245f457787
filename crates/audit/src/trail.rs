//! The handle for recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tidegate_core::Clock;
use tokio::sync::oneshot;

use crate::queue::{Kind, PendingRecord, Queue};
use crate::record::{Change, Event, Lost, Record};
use crate::settings::Settings;
use crate::sink::Sink;
use crate::writer::Writer;

/// The state that the handles and the writer share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) settings: Settings,
    pub(crate) written: AtomicU64,
    /// The last error of the sink, while it does not accept lines.
    pub(crate) failing: Mutex<Option<String>>,
}

/// A handle to an audit trail. Clones are cheap and share one writer, which ends when the trail is closed or
/// the last handle is dropped. Records that wait at that time are still written if the sink accepts them.
#[derive(Clone)]
pub struct Trail {
    shared: Arc<Shared>,
    _close: Arc<CloseOnDrop>,
}

/// Closes the trail when its last handle is dropped. The writer holds no handle.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.queue.begin_closing();
    }
}

/// The records that are not in the trail, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Records dropped because the buffer was full: the sink is too slow, or accepts nothing.
    pub buffer_full: Lost,
    /// Records that were not written before the trail was closed.
    pub unwritten: Lost,
}

impl Dropped {
    /// Returns the number of all dropped records.
    pub const fn total(&self) -> u64 {
        self.buffer_full.total().saturating_add(self.unwritten.total())
    }
}

/// Reasons why a change is not known to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotWritten {
    /// The change was not written in time. It may still be written later.
    #[error(
        "the audit trail did not write the change in time; see the log for why, and whether its disk is full"
    )]
    Late,
    /// The change will never be written: the buffer was full, or the trail was closed.
    #[error("the audit trail has no room for the change; see the log for why, and whether its disk is full")]
    Dropped,
}

/// A change that is being written to the disk.
#[must_use = "call `within` to learn whether the change was written"]
#[derive(Debug)]
pub struct Written(oneshot::Receiver<u64>);

impl Written {
    /// Waits until the record would survive a power failure, and returns its number. Needs a tokio runtime
    /// with time enabled.
    ///
    /// # Errors
    /// Returns an error if the record is not written within `deadline`, or will never be.
    pub async fn within(self, deadline: Duration) -> Result<u64, NotWritten> {
        match tokio::time::timeout(deadline, self.0).await {
            Ok(Ok(seq)) => Ok(seq),
            Ok(Err(_)) => Err(NotWritten::Dropped),
            Err(_) => Err(NotWritten::Late),
        }
    }
}

impl Trail {
    /// Starts a trail that writes to a sink in a thread of its own.
    ///
    /// # Panics
    /// Panics if the system cannot start a thread.
    pub fn start(sink: impl Sink, settings: &Settings, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Shared {
            queue: Queue::new(settings),
            settings: settings.clone(),
            written: AtomicU64::new(0),
            failing: Mutex::new(None),
        });
        let writer = Writer::new(sink, shared.clone(), clock);
        std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run())
            .expect("a thread for the audit trail");
        Self { _close: Arc::new(CloseOnDrop(shared.clone())), shared }
    }

    /// Records a change or denial if there is room in the buffer. Never waits for the disk.
    pub fn record(&self, record: impl Into<Record>) {
        let record = record.into();
        let kind = match record {
            Record::Change(_) => Kind::Change,
            Record::Denial(_) => Kind::Denial,
        };
        self.shared.queue.push(kind, PendingRecord { text: Event::from(record).encode(), ack: None });
    }

    /// Records a change, and returns a value to wait on until it is on the disk.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use tidegate_audit::{Change, FileSink, NotWritten, Settings, Trail};
    /// # use tidegate_core::VirtualClock;
    /// # async fn example(trail: Trail, change: Change) -> Result<(), NotWritten> {
    /// let seq = trail.record_and_wait(change).within(Duration::from_secs(2)).await?;
    /// println!("written as number {seq}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn record_and_wait(&self, change: Change) -> Written {
        let (ack, written) = oneshot::channel();
        let text = Event::Change(change).encode();
        self.shared.queue.push(Kind::Change, PendingRecord { text, ack: Some(ack) });
        Written(written)
    }

    /// Returns the number of records dropped since the start.
    pub fn dropped(&self) -> Dropped {
        let (buffer_full, unwritten) = self.shared.queue.lost();
        Dropped { buffer_full, unwritten }
    }

    /// Returns the number of records written since the start.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Returns the number of records that wait to be written.
    pub fn waiting(&self) -> usize {
        self.shared.queue.len()
    }

    /// Returns the last error while the trail cannot be written, or `None` while it can.
    pub fn failing(&self) -> Option<String> {
        self.shared.failing.lock().clone()
    }

    /// Accepts no more records, and waits until everything is written or the deadline has passed. Records
    /// that are not written by then are counted as dropped. Returns whether everything was written.
    pub fn close(&self, deadline: Duration) -> bool {
        self.shared.queue.close(deadline)
    }
}
