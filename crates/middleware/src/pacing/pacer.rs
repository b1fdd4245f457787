//! All hosts, and for each the requests that wait for their turn.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::lane::{Lane, Start};
use super::learn::Learned;

/// The most hosts that are remembered.
const MOST_HOSTS: usize = 10_000;

/// The hosts by key.
#[derive(Default)]
pub(super) struct Pacer(Mutex<HashMap<String, Arc<Host>>>);

/// A host. The first request in line waits for the limits; the others wait for the line.
#[derive(Default)]
pub(super) struct Host {
    line: tokio::sync::Mutex<()>,
    lane: Mutex<Lane>,
    /// Notified of every response.
    changed: Notify,
}

/// A request in flight. If it is dropped without a response, it counts as failed.
pub(super) struct InFlight {
    host: Arc<Host>,
    start: Option<Start>,
}

impl Pacer {
    pub(super) fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.0.lock();
        if let Some(host) = hosts.get(name) {
            return Arc::clone(host);
        }
        if hosts.len() >= MOST_HOSTS {
            let now = Instant::now();
            hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.lane.lock().ready_at(now) > now);
        }
        let host = Arc::<Host>::default();
        if hosts.len() < MOST_HOSTS {
            hosts.insert(name.to_owned(), Arc::clone(&host));
        }
        host
    }

    pub(super) fn learned(&self, name: &str) -> Option<Learned> {
        let host = self.0.lock().get(name).cloned()?;
        let lane = host.lane.lock();
        lane.learned().cloned()
    }
}

impl Host {
    /// Waits until this request may start, in order of arrival. Returns `None` as soon as it is known that this is
    /// after the deadline.
    pub(super) async fn turn(self: &Arc<Self>, deadline: Instant) -> Option<InFlight> {
        let _first = timeout_at(deadline, self.line.lock()).await.ok()?;
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on, no notification is missed.
            changed.as_mut().enable();
            let (now, ready_at, surely_until) = {
                let lane = self.lane.lock();
                let now = Instant::now();
                (now, lane.ready_at(now), lane.surely_until(now))
            };
            if ready_at <= now {
                return Some(self.start());
            }
            if surely_until > deadline || now >= deadline {
                return None;
            }
            select(changed, pin!(sleep_until(ready_at.min(deadline)))).await;
        }
    }

    /// Starts a request now, regardless of the limits.
    pub(super) fn start(self: &Arc<Self>) -> InFlight {
        let start = self.lane.lock().start(Instant::now());
        InFlight { host: Arc::clone(self), start: Some(start) }
    }
}

impl InFlight {
    /// Records the limits in the response.
    pub(super) fn respond(mut self, learned: Learned, denied: bool) {
        if let Some(start) = self.start.take() {
            self.host.lane.lock().respond(start, learned, denied, Instant::now());
            self.host.changed.notify_waiters();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(start) = self.start.take() {
            self.host.lane.lock().fail(start, Instant::now());
            self.host.changed.notify_waiters();
        }
    }
}
