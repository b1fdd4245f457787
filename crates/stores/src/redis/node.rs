//! One server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

use super::Shared;
use super::breaker::Breaker;
use super::lane::{Lane, drive};
use super::url::Host;
use crate::error::StoreError;

/// Threads with a lane of their own; more share them.
const LANES: usize = 64;

/// A server, and the lanes that lead to it.
pub(super) struct Node {
    /// What it is called in metrics and logs; stays the same when Sentinel names another primary.
    pub(super) name: String,
    pub(super) host: ArcSwap<Host>,
    pub(super) breaker: Breaker,
    lanes: Box<[ArcSwapOption<Lane>]>,
    gone: AtomicBool,
    going: Notify,
}

impl Node {
    pub(super) fn new(name: String, host: Host) -> Self {
        Self {
            name,
            host: ArcSwap::from_pointee(host),
            breaker: Breaker::new(),
            lanes: (0..LANES).map(|_| ArcSwapOption::empty()).collect(),
            gone: AtomicBool::new(false),
            going: Notify::new(),
        }
    }

    /// This thread's lane, which is driven on its runtime.
    pub(super) fn lane(self: &Arc<Self>, shared: &Arc<Shared>) -> Arc<Lane> {
        match &*self.lanes[thread_number()].load() {
            Some(lane) => Arc::clone(lane),
            None => self.new_lane(shared),
        }
    }

    /// A lane in place of one whose runtime has ended, or of none.
    #[cold]
    pub(super) fn new_lane(self: &Arc<Self>, shared: &Arc<Shared>) -> Arc<Lane> {
        let lane = Arc::new(Lane::default());
        self.lanes[thread_number()].store(Some(Arc::clone(&lane)));
        tokio::spawn(drive(Arc::clone(&lane), Arc::clone(self), Arc::clone(shared)));
        lane
    }

    pub(super) async fn connect(&self, shared: &Shared) -> Result<MultiplexedConnection, StoreError> {
        shared.connect(&self.host.load_full()).await
    }

    /// An address as this server says it: without a host it means its own.
    pub(super) fn resolve(&self, address: &str) -> Host {
        let own = self.host.load();
        match address.rsplit_once(':') {
            Some(("", port)) => Host { name: own.name.clone(), port: port.parse().unwrap_or(own.port) },
            Some((name, port)) => {
                let name = name.trim_start_matches('[').trim_end_matches(']');
                Host { name: name.to_owned(), port: port.parse().unwrap_or(own.port) }
            }
            None => Host::clone(&own),
        }
    }

    /// The server is not part of the store any more: its lanes end.
    pub(super) fn retire(&self) {
        self.gone.store(true, Ordering::Release);
        self.going.notify_waiters();
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) async fn gone(&self) {
        let going = self.going.notified();
        if !self.is_gone() {
            going.await;
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn unreachable(error: RedisError) -> StoreError {
    StoreError::Unreachable(error.to_string().into())
}

/// The same for a connection over which something was sent.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn broken(error: RedisError) -> StoreError {
    StoreError::Broken(error.to_string().into())
}

/// Threads are numbered as they come.
fn thread_number() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    NUMBER.with(|number| *number)
}
