//! A thread that serves connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use tokio::runtime;
use tokio::sync::mpsc;

use super::connection::{Serve, serve};
use super::guests::Guest;
use super::stream::Stream;

/// Connections on their way to a worker, with how they are to be served.
type Handed = (Stream, Arc<Guest>, Arc<Serve>, Seat);

/// A thread with a runtime of its own.
pub struct Worker {
    hands: mpsc::UnboundedSender<Handed>,
    load: Arc<AtomicUsize>,
}

/// A connection's place among those of a worker, given up when dropped.
pub struct Seat(Arc<AtomicUsize>);

impl Seat {
    /// Takes a place.
    pub fn take(load: &Arc<AtomicUsize>) -> Self {
        load.fetch_add(1, Relaxed);
        Self(Arc::clone(load))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Worker {
    /// Starts the thread, by name.
    ///
    /// # Errors
    /// If the system has no thread or no descriptors left.
    pub fn start(name: String) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        // What waits here has been counted against the bound on connections.
        let (hands, mut handed) = mpsc::unbounded_channel::<Handed>();
        let work = move || {
            runtime.block_on(async {
                while let Some((stream, guest, how, seat)) = handed.recv().await {
                    tokio::spawn(async move {
                        serve(stream, &guest, &how).await;
                        drop(seat);
                    });
                }
            });
        };
        // It ends when nobody can hand it connections any more, and with it those that are open.
        thread::Builder::new().name(name).spawn(work)?;
        Ok(Self { hands, load: Arc::default() })
    }

    /// How many connections it has.
    pub fn load(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// Hands it a connection.
    pub fn hand(&self, stream: Stream, guest: Arc<Guest>, how: &Arc<Serve>) {
        let seat = Seat::take(&self.load);
        // It fails only if the thread is gone, and then the connection closes.
        let _ = self.hands.send((stream, guest, Arc::clone(how), seat));
    }
}
