//! How far behind the catalog this node is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Cheap to clone: all clones are the same.
#[derive(Clone, Default)]
pub struct CatalogHealth(Arc<State>);

#[derive(Default)]
struct State {
    version: AtomicU64,
    away: AtomicBool,
    failures: AtomicU64,
    /// Why what the catalog says is not in force, if it is not.
    refused: Mutex<Option<String>>,
}

impl CatalogHealth {
    /// The version that is in force here.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed)
    }

    /// Whether the catalog answered when it was asked last.
    pub fn is_there(&self) -> bool {
        !self.0.away.load(Ordering::Relaxed)
    }

    /// How often it did not.
    pub fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    /// Why what the catalog says is not in force, if it is not.
    pub fn refused(&self) -> Option<String> {
        self.0.refused.lock().clone()
    }

    pub(super) fn reached(&self, version: u64) {
        self.0.version.store(version, Ordering::Relaxed);
    }

    pub(super) fn answered(&self) {
        if self.0.away.swap(false, Ordering::Relaxed) {
            tracing::info!("the catalog is back");
        }
    }

    pub(super) fn failed(&self, error: &dyn std::fmt::Display) {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
        if !self.0.away.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the catalog does not answer; what it said last stays in force");
        }
    }

    pub(super) fn set_refused(&self, reason: Option<String>) {
        let mut refused = self.0.refused.lock();
        if let Some(reason) = reason.as_ref().filter(|_| *refused != reason) {
            tracing::error!(reason, "the catalog's rules are refused; the last good ones stay");
        }
        *refused = reason;
    }
}
