//! What the service counts besides the decisions of rules. Every handle is there from the start:
//! counting is one atomic addition.
//!
//! - [`durations`]: how long things took
//! - [`export`]: all of it for Prometheus; `room`: memory and connections that fit

mod durations;
mod export;
mod room;

use std::ops::Deref;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

pub use self::durations::{Durations, Timer};
pub use self::export::{Format, export};
use crate::listen::capacity::Capacity;
use crate::memory::Memory;

/// The service's counters. Cheap to clone: all clones are the same.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Counted>);

/// What is counted.
#[derive(Default)]
pub struct Counted {
    /// Checks over gRPC.
    pub grpc_check: Durations,
    /// Checks over HTTP.
    pub http_check: Durations,
    /// Checks and acquisitions that were refused, over either.
    pub refused: Counter,
    /// Requests over Envoy's protocol and `tidegate.v1` that were decided in their canonical form, because they
    /// were not within bounds or not text.
    pub canonicalized: Counter,
    /// What became of reservations, over either.
    pub reservations: Reservations,
    /// Connections of the gRPC listener.
    pub grpc_connections: Connections,
    /// Connections of the HTTP listener.
    pub http_connections: Connections,
    /// Connections of the admin listener.
    pub admin_connections: Connections,
    /// Certificates of the gRPC listener.
    pub grpc_certificates: Certified,
    /// Certificates of the HTTP listener.
    pub http_certificates: Certified,
    /// Certificates of the admin listener.
    pub admin_certificates: Certified,
    /// What fits, once that is known.
    pub room: OnceLock<(Memory, Capacity)>,
}

impl Metrics {
    /// The counters of a service with so much memory, for so many connections.
    pub fn new(memory: Memory, capacity: Capacity) -> Self {
        Self(Arc::new(Counted { room: OnceLock::from((memory, capacity)), ..Counted::default() }))
    }
}

/// What became of reservations.
#[derive(Default)]
pub struct Reservations {
    /// Made: the estimate was charged.
    pub reserved: Counter,
    /// Denied by a limit.
    pub denied: Counter,
    /// Settled.
    pub settled: Counter,
    /// To be settled, but gone already: settled before, or expired.
    pub gone: Counter,
    /// Neither, because the shared store failed or too many wait to be settled.
    pub failed: Counter,
}

/// The connections of a listener.
#[derive(Default)]
pub struct Connections {
    /// Ever accepted.
    pub accepted: Counter,
    /// Closed since, for whatever reason.
    pub closed: Counter,
    /// Shed at the bound.
    pub shed: Counter,
    /// Given up because TLS or the first request did not come in time.
    pub timed_out: Counter,
}

/// The certificates of a listener.
#[derive(Default)]
pub struct Certified {
    /// When the listener's own expires, in seconds of Unix time; 0 without TLS.
    expires_at_s: AtomicI64,
    /// How often changed files were looked at and could not be used.
    pub refused: Counter,
}

impl Certified {
    /// Others are in use now.
    pub fn set_expiry(&self, at_s: i64) {
        self.expires_at_s.store(at_s, Relaxed);
    }

    /// When the listener's own expires; `None` without TLS.
    pub fn expires_at_s(&self) -> Option<i64> {
        Some(self.expires_at_s.load(Relaxed)).filter(|at_s| *at_s != 0)
    }
}

/// A number that grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Connections {
    /// How many are open.
    pub fn open(&self) -> u64 {
        // Read in this order, what is closed meanwhile is not counted as closed before it came.
        let closed = self.closed.get();
        self.accepted.get().saturating_sub(closed)
    }
}

impl Deref for Metrics {
    type Target = Counted;

    fn deref(&self) -> &Counted {
        &self.0
    }
}
