//! Live events, for clients that watch the dashboard.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

/// Clients that may watch at once.
pub(crate) const MAX_CLIENTS: usize = 64;
/// Events that a client may be behind. Beyond that it does not read, and is dropped.
const MAX_BEHIND: usize = 64;

/// One event, written once for all who watch.
#[derive(Clone, Debug)]
pub(crate) struct LiveEvent {
    pub(crate) name: &'static str,
    pub(crate) data: Arc<str>,
}

/// Hands events to those who watch.
pub(super) struct Live {
    sender: broadcast::Sender<LiveEvent>,
    room: Arc<Semaphore>,
}

/// Somebody who watches, until it is dropped.
pub(crate) struct Watcher {
    receiver: broadcast::Receiver<LiveEvent>,
    _room: OwnedSemaphorePermit,
}

impl Default for Live {
    fn default() -> Self {
        Self { sender: broadcast::channel(MAX_BEHIND).0, room: Arc::new(Semaphore::new(MAX_CLIENTS)) }
    }
}

impl Live {
    /// Returns the events from now on; `None` if too many watch already.
    pub(super) fn watch(&self) -> Option<Watcher> {
        let room = Arc::clone(&self.room).try_acquire_owned().ok()?;
        Some(Watcher { receiver: self.sender.subscribe(), _room: room })
    }

    pub(super) fn is_watched(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Sends an event to all who watch. The data are made only if somebody does.
    pub(super) fn send(&self, name: &'static str, data: impl FnOnce() -> serde_json::Value) {
        if self.is_watched() {
            // This fails only if no receiver is left, which is harmless.
            let _ = self.sender.send(LiveEvent { name, data: data().to_string().into() });
        }
    }
}

impl Watcher {
    /// Returns the next event; `None` if the watcher was too slow, or the service stops.
    pub(crate) async fn next(&mut self) -> Option<LiveEvent> {
        self.receiver.recv().await.ok()
    }
}
