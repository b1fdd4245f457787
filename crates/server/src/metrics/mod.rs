//! The metrics of the service, besides the decisions of rules. All handles exist from the start, so that counting is one
//! atomic addition.
//!
//! - [`durations`]: histograms of durations
//! - [`export`]: the metrics for Prometheus; `memory`: those of memory; [`other_names`]: those under names of others

mod durations;
mod export;
mod memory;
mod other_names;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use self::durations::Reading;
pub use self::durations::{DURATION_BUCKETS, Durations, Timer, percentile_us};
pub use self::export::{Format, export};
pub use self::other_names::OtherNames;
use crate::memory::Memory;

/// The metrics of the service. Clones share their state.
#[derive(Clone, Default)]
pub struct Metrics(Arc<MetricsInner>);

/// The shared state of [`Metrics`].
#[derive(Default)]
pub struct MetricsInner {
    /// The front ends that decide requests.
    front_ends: Mutex<Vec<Arc<FrontEnd>>>,
    /// The listeners.
    listeners: Mutex<Vec<Arc<ListenerMetrics>>>,
    /// Requests for a decision that were refused before they were decided.
    pub refused: Counter,
    /// Requests over Envoy's protocol that were decided in canonical form, because they were not text or exceeded a
    /// bound.
    pub canonicalized: Counter,
    /// Reservations by outcome.
    pub reservations: Reservations,
    /// The bound on memory, if there is one.
    memory: Option<Memory>,
    /// Which names are exported besides our own.
    other_names: OtherNames,
}

/// A front end that decides requests: `grpc`, `http`.
#[derive(Default)]
pub struct FrontEnd {
    /// Its name, which is the label `api` of its series.
    pub name: &'static str,
    /// The durations of checks, from the complete request to the complete response.
    pub durations: Durations,
}

impl Metrics {
    /// Returns the metrics of a front end, which are exported from now on.
    pub fn front_end(&self, name: &'static str) -> Arc<FrontEnd> {
        let new = || FrontEnd { name, ..FrontEnd::default() };
        registered(&self.front_ends, |front_end| front_end.name == name, new)
    }

    /// Returns the metrics of a listener, which are exported from now on.
    pub fn listener(&self, name: &'static str) -> Arc<ListenerMetrics> {
        let new = || ListenerMetrics { name, ..ListenerMetrics::default() };
        registered(&self.listeners, |listener| listener.name == name, new)
    }

    /// Returns the durations of the checks of all front ends, by bucket.
    pub fn durations(&self) -> [u64; DURATION_BUCKETS] {
        let mut sum = [0; DURATION_BUCKETS];
        for front_end in self.front_ends() {
            sum.iter_mut().zip(front_end.durations.counts()).for_each(|(sum, more)| *sum += more);
        }
        sum
    }

    fn front_ends(&self) -> Vec<Arc<FrontEnd>> {
        self.front_ends.lock().clone()
    }

    fn listeners(&self) -> Vec<Arc<ListenerMetrics>> {
        self.listeners.lock().clone()
    }

    /// Returns the metrics of a service with this bound on memory, which are exported under these names too.
    pub fn new(memory: Memory, other_names: OtherNames) -> Self {
        Self(Arc::new(MetricsInner { memory: Some(memory), other_names, ..MetricsInner::default() }))
    }

    /// Returns the durations of all front ends: the sum in seconds, the count, and the count of each bucket.
    #[expect(clippy::float_arithmetic, reason = "Prometheus counts in seconds")]
    fn all_durations(&self) -> Reading {
        let mut all: Option<Reading> = None;
        for (sum, count, buckets) in self.front_ends().iter().map(|front_end| front_end.durations.read()) {
            match &mut all {
                None => all = Some((sum, count, buckets)),
                Some(all) => {
                    (all.0, all.1) = (all.0 + sum, all.1 + count);
                    all.2.iter_mut().zip(buckets).for_each(|(bucket, (_, more))| bucket.1 += more);
                }
            }
        }
        all.unwrap_or_else(|| Durations::default().read())
    }
}

/// Returns the item that `is` it, or adds a new one.
fn registered<T>(items: &Mutex<Vec<Arc<T>>>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> Arc<T> {
    let mut items = items.lock();
    if let Some(known) = items.iter().find(|item| is(item)) {
        return Arc::clone(known);
    }
    let item = Arc::new(new());
    items.push(Arc::clone(&item));
    item
}

/// A listener: `grpc`, `http`, `admin`.
#[derive(Default)]
pub struct ListenerMetrics {
    /// Its name, which is the label `listener` of its series.
    pub name: &'static str,
    /// Connections that it may have at once.
    max_connections: AtomicUsize,
    /// Its connections.
    pub connections: Connections,
    /// Its certificates.
    pub certificates: CertificateMetrics,
}

impl ListenerMetrics {
    /// Sets how many connections it may have at once.
    pub fn set_max_connections(&self, max: usize) {
        self.max_connections.store(max, Relaxed);
    }
}

/// Reservations by outcome.
#[derive(Default)]
pub struct Reservations {
    /// The estimate was charged.
    pub reserved: Counter,
    /// A limit denied the estimate.
    pub denied: Counter,
    /// The reservation was settled.
    pub settled: Counter,
    /// The reservation to settle does not exist: it was settled before, or has expired.
    pub gone: Counter,
    /// The shared store failed, or too many reservations are held.
    pub failed: Counter,
}

/// The connections of a listener.
#[derive(Default)]
pub struct Connections {
    /// Accepted.
    pub accepted: Counter,
    /// Closed, for any reason.
    pub closed: Counter,
    /// Refused or closed because the listener was full, or memory short.
    pub shed: Counter,
    /// Closed because a timeout had passed.
    pub timed_out: Counter,
}

/// The certificates of a listener.
#[derive(Default)]
pub struct CertificateMetrics {
    /// When the certificate expires, in seconds of Unix time; 0 without TLS.
    expires_at_s: AtomicI64,
    /// Failed reloads of changed files.
    pub refused: Counter,
}

impl CertificateMetrics {
    /// Sets when the certificate expires, in seconds of Unix time.
    pub fn set_expiry(&self, at_s: i64) {
        self.expires_at_s.store(at_s, Relaxed);
    }

    /// Returns when the certificate expires, in seconds of Unix time; `None` without TLS.
    pub fn expires_at_s(&self) -> Option<i64> {
        Some(self.expires_at_s.load(Relaxed)).filter(|at_s| *at_s != 0)
    }
}

/// A counter.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// Returns its value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Connections {
    /// Returns how many connections are open.
    pub fn open(&self) -> u64 {
        // Read in this order, so that a connection that is accepted and closed meanwhile does not make it negative.
        let closed = self.closed.get();
        self.accepted.get().saturating_sub(closed)
    }
}

impl Deref for Metrics {
    type Target = MetricsInner;

    fn deref(&self) -> &MetricsInner {
        &self.0
    }
}
