//! Clients that do not stop asking.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use super::edge::Edge;
use crate::support::service::{send, until};

/// Two at once, so that a request is under way whatever happens.
const CLIENTS: usize = 2;

/// Requests that go on until they are told to stop.
pub(super) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Statuses>>,
}

/// How often each status was seen.
pub(super) type Statuses = BTreeMap<u16, usize>;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
}

impl Load {
    /// Starts, and waits until requests are answered.
    pub(super) fn on(edge: &Edge) -> Self {
        let shared = Arc::new(Shared::default());
        let client = |_| {
            let (shared, address) = (Arc::clone(&shared), edge.address());
            thread::spawn(move || shared.ask(address))
        };
        let load = Self { clients: (0..CLIENTS).map(client).collect(), shared };
        load.goes_on();
        load
    }

    /// Waits until some more requests are answered.
    pub(super) fn goes_on(&self) {
        let before = self.shared.answered.load(Relaxed);
        until("more requests are answered", || self.shared.answered.load(Relaxed) > before + 20);
    }

    /// Stops and tells what was seen.
    pub(super) fn stop(self) -> Statuses {
        self.shared.stop.store(true, Relaxed);
        let mut all = Statuses::new();
        for client in self.clients {
            for (status, count) in client.join().expect("a client that asks") {
                *all.entry(status).or_default() += count;
            }
        }
        all
    }
}

impl Shared {
    fn ask(&self, address: SocketAddr) -> Statuses {
        let request = "GET / HTTP/1.1\r\nhost: edge\r\nx-user: ann\r\nconnection: close\r\n\r\n";
        let mut statuses = Statuses::new();
        while !self.stop.load(Relaxed) {
            *statuses.entry(send(address, request).status).or_default() += 1;
            self.answered.fetch_add(1, Relaxed);
        }
        statuses
    }
}
