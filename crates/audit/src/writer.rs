//! The thread that writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{Clock, Micros};

use crate::chain::Tip;
use crate::queue::{Ack, Work};
use crate::record::{Event, Lost, Retired};
use crate::sink::{Batch, Sink};
use crate::trail::Shared;

/// Seals the queued records and writes them to the sink, retrying until the sink accepts them.
pub(crate) struct Writer<S> {
    sink: S,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    tip: Tip,
    /// The last field, so that the sink is dropped before the end is signalled. So a trail can be opened
    /// again as soon as it is closed.
    _ended: EndSignal,
}

/// A batch, and what is done after it is written.
struct Sealed {
    batch: Batch,
    acks: Vec<(u64, Ack)>,
    retired: Option<Retired>,
    of: Lost,
}

impl<S: Sink> Writer<S> {
    pub(crate) fn new(sink: S, shared: Arc<Shared>, clock: Arc<dyn Clock>) -> Self {
        let tip = sink.tip();
        Self { sink, _ended: EndSignal(shared.clone()), shared, clock, tip }
    }

    /// Writes until the trail is closed.
    pub(crate) fn run(mut self) {
        if let Some(mut cut) = self.sink.take_cut() {
            tracing::warn!(
                file = cut.file,
                bytes = cut.bytes,
                records = cut.records,
                reason = cut.reason,
                "the end of the audit trail was damaged; it was repaired, and the trail records this"
            );
            cut.at = self.clock.now();
            cut.node.clone_from(&self.shared.settings.node);
            let sealed = self.seal(None, Some(Event::Cut(cut)));
            if !self.write(sealed) {
                return;
            }
        }
        while let Some(work) = self.shared.queue.next(self.shared.settings.gather) {
            let sealed = self.seal(Some(work), None);
            if !self.write(sealed) {
                return;
            }
        }
    }

    /// Seals the records of `work` and the trail's own events: `own`, and the removal of old segments.
    fn seal(&mut self, work: Option<Work>, own: Option<Event>) -> Sealed {
        let now = self.clock.now();
        let (mut lines, mut acks) = (Vec::new(), Vec::new());
        let first = self.tip.seq + 1;
        let mut tip = self.tip;
        let (mut of, mut missing) = (Lost::default(), Lost::default());
        if let Some(work) = work {
            (of, missing) = (work.of, work.missing);
            for waiting in work.records {
                tip.seal(&waiting.text, std::mem::take(&mut missing), &mut lines);
                acks.extend(waiting.ack.map(|ack| (tip.seq, ack)));
            }
        }
        let retired = self.due(now);
        for event in own.into_iter().chain(retired.clone().map(Event::Retired)) {
            tip.seal(&event.encode(), std::mem::take(&mut missing), &mut lines);
        }
        Sealed { batch: Batch { lines, first, tip, now }, acks, retired, of }
    }

    fn due(&self, now: Micros) -> Option<Retired> {
        let mut retired = self.sink.due(now)?;
        retired.at = now;
        retired.node.clone_from(&self.shared.settings.node);
        Some(retired)
    }

    /// Writes a batch, however long that takes. Returns false if the trail was closed before that.
    fn write(&mut self, sealed: Sealed) -> bool {
        let mut failed = false;
        while let Err(error) = self.sink.append(&sealed.batch) {
            if !failed {
                tracing::error!(%error, "the audit trail cannot be written; records are buffered, then \
                    dropped and counted: free disk space, or make its folder writable");
            }
            failed = true;
            *self.shared.failing.lock() = Some(error.to_string());
            if !self.shared.queue.pause(self.shared.settings.retry) {
                self.shared.queue.give_up(sealed.of);
                return false;
            }
        }
        if failed {
            *self.shared.failing.lock() = None;
            tracing::info!("the audit trail can be written again");
        }
        self.tip = sealed.batch.tip;
        self.shared.written.fetch_add(sealed.of.total(), Ordering::Relaxed);
        for (seq, ack) in sealed.acks {
            // The caller may have stopped waiting.
            let _ = ack.send(seq);
        }
        if let Some(retired) = &sealed.retired {
            self.sink.retire(retired);
        }
        true
    }
}

/// Signals on drop that the writer has ended, also after a panic, so that no caller waits for it forever.
struct EndSignal(Arc<Shared>);

impl Drop for EndSignal {
    fn drop(&mut self) {
        self.0.queue.end();
    }
}
