//! One server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use quanta::Instant;
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

use super::Shared;
use super::breaker::Breaker;
use super::lane::{Lane, drive};
use super::latency::Latency;
use super::url::Host;
use crate::error::StoreError;

/// Number of threads with their own lanes; further threads share them.
const LANES: usize = 64;

/// A server, and the lanes that send to it.
pub(super) struct Node {
    /// The name of the server in metrics and logs. It stays the same when Sentinel promotes another primary.
    pub(super) name: String,
    pub(super) host: ArcSwap<Host>,
    pub(super) breaker: Breaker,
    /// The durations of its batches.
    pub(super) latency: Latency,
    /// The connection of the liveness probe, and the term it was made in.
    pub(super) spare: tokio::sync::Mutex<Option<(u64, MultiplexedConnection)>>,
    /// Incremented when the server is replaced, is about to be, or has recovered: what was sent in an earlier term
    /// may be lost, or may have used a dead connection.
    term: AtomicU64,
    /// The number of the current fence, or 0. While the server is being replaced it is fenced, because what it counts
    /// is lost.
    fence: AtomicU64,
    /// Number of fences so far.
    fences: AtomicU64,
    born: Instant,
    /// Milliseconds since `born` at which it last completed a command.
    heard_ms: AtomicU64,
    /// Milliseconds since `born` at which a lane last probed it.
    probed_ms: AtomicU64,
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
            latency: Latency::default(),
            spare: tokio::sync::Mutex::default(),
            term: AtomicU64::new(0),
            fence: AtomicU64::new(0),
            fences: AtomicU64::new(0),
            born: Instant::now(),
            heard_ms: AtomicU64::new(0),
            probed_ms: AtomicU64::new(0),
            lanes: (0..LANES).map(|_| ArcSwapOption::empty()).collect(),
            gone: AtomicBool::new(false),
            going: Notify::new(),
        }
    }

    /// Returns this thread's lane, which is driven on the thread's runtime.
    pub(super) fn lane(self: &Arc<Self>, shared: &Arc<Shared>) -> Arc<Lane> {
        match &*self.lanes[thread_number()].load() {
            Some(lane) => Arc::clone(lane),
            None => self.new_lane(shared),
        }
    }

    /// Makes a lane for this thread, in place of one whose runtime has ended or of none.
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

    /// Returns the term of the server. If it differs from the [`open_term`](Self::open_term) in which a request was
    /// sent, the reply is from a server that has been replaced.
    pub(super) fn term(&self) -> u64 {
        self.term.load(Ordering::Acquire)
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.fence.load(Ordering::Acquire) != 0
    }

    /// Returns the term in which requests may be sent now; `None` while the server is fenced. The term is read first:
    /// a fence that is set afterwards begins another term, so that the reply is discarded.
    pub(super) fn open_term(&self) -> Option<u64> {
        let term = self.term();
        (!self.is_fenced()).then_some(term)
    }

    /// Fences the server because it is about to be replaced: nothing is sent to it and its replies are discarded,
    /// until [`move_to`](Self::move_to), [`lift_fence`](Self::lift_fence) or
    /// [`lift_any_fence`](Self::lift_any_fence). Returns the number of the fence, or `None` if the server is fenced
    /// already.
    pub(super) fn fence(&self) -> Option<u64> {
        let number = self.fences.fetch_add(1, Ordering::AcqRel) + 1;
        self.fence.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire).ok()?;
        self.term.fetch_add(1, Ordering::AcqRel);
        Some(number)
    }

    /// Lifts a fence, because the server was not replaced in time. A later fence stays.
    pub(super) fn lift_fence(&self, number: u64) {
        // This fails if the fence was lifted or replaced by another.
        let _ = self.fence.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Lifts any fence, because the server is not replaced after all.
    pub(super) fn lift_any_fence(&self) {
        self.fence.store(0, Ordering::Release);
    }

    /// Moves to another server, in a new term and without a fence.
    pub(super) fn move_to(&self, host: Host) {
        self.host.store(Arc::new(host));
        self.term.fetch_add(1, Ordering::AcqRel);
        self.lift_any_fence();
    }

    /// Closes the breaker after the server has passed a liveness probe. Lanes make new connections, because the old
    /// ones may be dead without notice. Returns whether the breaker was open.
    pub(super) fn came_back(&self) -> bool {
        self.heard();
        // Before any request is let through.
        self.term.fetch_add(1, Ordering::AcqRel);
        self.breaker.close()
    }

    /// Notes that the server has completed a command.
    pub(super) fn heard(&self) {
        self.heard_ms.store(self.age_ms(), Ordering::Relaxed);
    }

    /// Returns how long ago the server last completed a command.
    pub(super) fn silent_for(&self) -> Duration {
        Duration::from_millis(self.age_ms().saturating_sub(self.heard_ms.load(Ordering::Relaxed)))
    }

    /// Notes that a lane probes the server.
    pub(super) fn probing(&self) {
        self.probed_ms.store(self.age_ms(), Ordering::Relaxed);
    }

    /// Returns how long ago a lane last probed the server. Lanes that were idle when the breaker opened do not
    /// probe.
    pub(super) fn unprobed_for(&self) -> Duration {
        Duration::from_millis(self.age_ms().saturating_sub(self.probed_ms.load(Ordering::Relaxed)))
    }

    fn age_ms(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    /// Resolves an address that this server has sent. Without a host, it is the host of this server.
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

    /// Ends the lanes, because the server is no longer part of the store.
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

/// The error for requests that were not sent because the server is being replaced.
pub(super) fn fenced() -> StoreError {
    StoreError::Unreachable("its primary is being replaced".into())
}

/// The error for requests whose server was replaced before its reply.
pub(super) fn replaced() -> StoreError {
    StoreError::Broken("its primary was replaced before it replied".into())
}

/// Returns the error of a connection over which nothing was sent.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn unreachable(error: RedisError) -> StoreError {
    StoreError::Unreachable(error.to_string().into())
}

/// Returns the error of a connection over which something was sent.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn broken(error: RedisError) -> StoreError {
    StoreError::Broken(error.to_string().into())
}

impl StoreError {
    /// Returns the error to report if something else was sent before, which may have been executed.
    pub(super) fn after_sending(self) -> Self {
        match self {
            Self::Unreachable(why) => Self::Broken(why),
            Self::Open | Self::Full => Self::Broken(self.to_string().into()),
            other => other,
        }
    }
}

/// Returns the lane number of this thread; threads are numbered in the order of their first use.
fn thread_number() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u64 = 5_000;

    fn node() -> Node {
        Node::new("n".to_owned(), Host { name: "h".to_owned(), port: 1 })
    }

    #[test]
    fn nothing_is_sent_behind_a_fence_and_no_reply_from_before_it_counts() {
        let node = node();
        let before = node.open_term().expect("there is no fence");
        let number = node.fence().expect("the first fence");
        assert!(node.open_term().is_none() && node.term() != before);
        assert!(node.fence().is_none(), "there is one already");
        node.lift_fence(number + 1);
        assert!(node.open_term().is_none(), "another fence was lifted");
        node.lift_fence(number);
        assert_ne!(node.open_term().expect("it was lifted"), before);
    }

    /// Requests sent after the server was fenced are never counted, whatever the interleaving.
    #[test]
    fn a_reply_to_what_was_sent_behind_a_fence_never_counts() {
        let (node, fenced, done) = (node(), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        let Some(term) = node.open_term() else { continue };
                        // The request is sent at this point.
                        let behind = fenced.load(Ordering::SeqCst);
                        assert!(!(behind && node.term() == term), "sent behind a fence, and counted");
                    }
                });
            }
            for round in 0..ROUNDS {
                let number = node.fence();
                fenced.store(true, Ordering::SeqCst);
                std::thread::yield_now();
                fenced.store(false, Ordering::SeqCst);
                match number {
                    Some(number) if round % 3 == 0 => node.lift_fence(number),
                    _ if round % 3 == 1 => node.lift_any_fence(),
                    _ => node.move_to(Host { name: "h".to_owned(), port: 2 }),
                }
            }
            done.store(true, Ordering::SeqCst);
        });
    }
}
