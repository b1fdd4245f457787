//! A thread that serves connections.

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

/// A connection on its way to a worker.
type Handed = (Stream, Arc<Entry>, Arc<OpenListener>, Load);

/// A thread with a runtime of its own.
pub struct Worker {
    queue: mpsc::UnboundedSender<Handed>,
    load: Arc<AtomicUsize>,
}

/// One connection in the count of a worker, until it is dropped.
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
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// If the system has no threads or no file descriptors left.
    pub fn start(name: String) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        // The bound on connections is the bound on this queue.
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

    /// Returns how many connections it has.
    pub fn load(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// Hands it a connection.
    pub fn hand(&self, stream: Stream, entry: Arc<Entry>, listener: &Arc<OpenListener>) {
        let load = Load::add(&self.load);
        // It fails only if the thread is gone, and then the connection closes.
        let _ = self.queue.send((stream, entry, Arc::clone(listener), load));
    }
}
