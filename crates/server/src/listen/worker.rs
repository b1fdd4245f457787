//! A worker thread that serves connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use tokio::runtime;
use tokio::sync::mpsc;

use super::connection::serve;
use super::connections::Entry;
use super::listener::OpenListener;
use super::stream::Stream;

/// A connection that is handed to a worker.
type Handed = (Stream, Arc<Entry>, Arc<OpenListener>, Load);

/// A worker thread with its own runtime.
pub struct Worker {
    queue: mpsc::UnboundedSender<Handed>,
    load: Arc<AtomicUsize>,
}

/// Counts one connection of a worker until it is dropped.
struct Load(Arc<AtomicUsize>);

impl Load {
    fn add(load: &Arc<AtomicUsize>) -> Self {
        load.fetch_add(1, Relaxed);
        Self(Arc::clone(load))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Worker {
    /// Starts a worker thread with this name.
    ///
    /// # Errors
    /// Returns an error if the system has no threads or file descriptors left.
    pub fn start(name: String) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        // The queue is bounded by the limit on connections.
        let (queue, mut handed) = mpsc::unbounded_channel::<Handed>();
        let work = move || {
            runtime.block_on(async {
                while let Some((stream, entry, listener, load)) = handed.recv().await {
                    tokio::spawn(async move {
                        serve(stream, &entry, &listener).await;
                        drop(load);
                    });
                }
            });
        };
        // The thread ends, with its open connections, when the worker is dropped.
        thread::Builder::new().name(name).spawn(work)?;
        Ok(Self { queue, load: Arc::default() })
    }

    /// Returns the number of connections that the worker serves.
    pub fn load(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// Hands a connection to the worker.
    pub fn hand(&self, stream: Stream, entry: Arc<Entry>, listener: &Arc<OpenListener>) {
        let load = Load::add(&self.load);
        // This fails only if the thread has ended, and then the connection is closed.
        let _ = self.queue.send((stream, entry, Arc::clone(listener), load));
    }
}
