//! The handle that records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tidegate_core::Clock;
use tokio::sync::oneshot;

use crate::queue::{Kind, Queue, Waiting};
use crate::record::{Change, Event, Lost, Record};
use crate::settings::Settings;
use crate::sink::Sink;
use crate::writer::Writer;

/// What the handles and the writer share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) settings: Settings,
    pub(crate) written: AtomicU64,
    /// Why the sink does not take what it is given, while it does not.
    pub(crate) failing: Mutex<Option<String>>,
}

/// Records into an audit trail. Clones are cheap and share one writer, which ends when the trail is
/// closed or the last of them is gone; what waited then is still written if the sink takes it.
#[derive(Clone)]
pub struct Trail {
    shared: Arc<Shared>,
    _last: Arc<Last>,
}

/// Closes the trail with its last handle. The writer holds none.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.queue.begin_closing();
    }
}

/// Records that a trail took, or should have, and that are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The buffer was full: the sink is too slow, or takes nothing.
    pub buffer_full: Lost,
    /// The trail was closed before they were written.
    pub unwritten: Lost,
}

impl Dropped {
    /// For whatever reason.
    pub const fn total(&self) -> u64 {
        self.buffer_full.total().saturating_add(self.unwritten.total())
    }
}

/// Why a change is not known to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotWritten {
    /// It was not in time. It may be written yet.
    #[error(
        "the audit trail did not take the change in time; look at the log for why, and whether its disk is full"
    )]
    Late,
    /// It never will be: the buffer was full, or the trail closed.
    #[error(
        "the audit trail has no room for the change; look at the log for why, and whether its disk is full"
    )]
    Dropped,
}

/// A change on its way to the disk.
#[must_use = "nobody knows whether it is written unless somebody waits for it"]
#[derive(Debug)]
pub struct Written(oneshot::Receiver<u64>);

impl Written {
    /// The number of the record, once it is where a power cut cannot take it. Needs a runtime of tokio
    /// with time.
    ///
    /// # Errors
    /// If it is not written within `deadline`, or never will be.
    pub async fn within(self, deadline: Duration) -> Result<u64, NotWritten> {
        match tokio::time::timeout(deadline, self.0).await {
            Ok(Ok(seq)) => Ok(seq),
            Ok(Err(_)) => Err(NotWritten::Dropped),
            Err(_) => Err(NotWritten::Late),
        }
    }
}

impl Trail {
    /// Starts a writer over a sink.
    ///
    /// # Panics
    /// If the system has no room for a thread.
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
        Self { _last: Arc::new(Last(shared.clone())), shared }
    }

    /// Records, if there is room, and never waits for the disk.
    pub fn record(&self, record: impl Into<Record>) {
        let record = record.into();
        let kind = match record {
            Record::Change(_) => Kind::Change,
            Record::Denial(_) => Kind::Denial,
        };
        self.shared.queue.push(kind, Waiting { text: Event::from(record).encode(), ack: None });
    }

    /// Records a change, and tells when it is on the disk.
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
        self.shared.queue.push(Kind::Change, Waiting { text, ack: Some(ack) });
        Written(written)
    }

    /// Records that are not in the trail, since the start.
    pub fn dropped(&self) -> Dropped {
        let (buffer_full, unwritten) = self.shared.queue.lost();
        Dropped { buffer_full, unwritten }
    }

    /// Records that were written since the start.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Records that wait to be written.
    pub fn waiting(&self) -> usize {
        self.shared.queue.len()
    }

    /// Why nothing can be written just now, if so.
    pub fn failing(&self) -> Option<String> {
        self.shared.failing.lock().clone()
    }

    /// Takes no more, and waits until everything is written or the deadline has passed. What is not
    /// written by then is counted as dropped. Whether all was written.
    pub fn close(&self, deadline: Duration) -> bool {
        self.shared.queue.close(deadline)
    }
}
