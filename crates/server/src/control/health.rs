//! How far behind the catalog this node is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::clock::CatalogClock;
use super::switches::SwitchState;

/// Cheap to clone: all clones are the same.
#[derive(Clone, Default)]
pub struct CatalogHealth(Arc<State>);

#[derive(Default)]
struct State {
    clock: CatalogClock,
    /// This node has known the catalog, if only by its copy.
    known: AtomicBool,
    /// Without having known it, this node is not ready.
    required: AtomicBool,
    switches: Mutex<Vec<SwitchState>>,
    /// Changes that wait to be written into the audit files, and those that never will be.
    unrecorded: AtomicU64,
    lost: AtomicU64,
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

    /// Whether this node knows enough to decide: it has known the catalog, or need not.
    pub fn is_usable(&self) -> bool {
        self.0.known.load(Ordering::Acquire) || !self.0.required.load(Ordering::Relaxed)
    }

    /// Whether this node has known the catalog, if only by its copy.
    pub fn is_known(&self) -> bool {
        self.0.known.load(Ordering::Acquire)
    }

    /// The catalog's clock.
    pub fn clock(&self) -> &CatalogClock {
        &self.0.clock
    }

    /// Every switch that is set somewhere.
    pub fn switches(&self) -> Vec<SwitchState> {
        self.0.switches.lock().clone()
    }

    /// Changes that wait to be written into the audit files.
    pub fn unrecorded(&self) -> u64 {
        self.0.unrecorded.load(Ordering::Relaxed)
    }

    /// Changes that are not in the audit files, and will not be, besides those the trail knows of.
    pub fn lost_records(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    pub(super) fn new(clock: CatalogClock, required: bool) -> Self {
        Self(Arc::new(State { clock, required: required.into(), ..State::default() }))
    }

    /// Notes that this node knows the catalog now.
    pub(super) fn set_known(&self) {
        if !self.0.known.swap(true, Ordering::Release) && self.0.away.load(Ordering::Relaxed) {
            tracing::info!("the catalog is known now");
        }
    }

    pub(super) fn set_switches(&self, switches: Vec<SwitchState>) {
        *self.0.switches.lock() = switches;
    }

    pub(super) fn set_unrecorded(&self, count: usize) {
        self.0.unrecorded.store(count as u64, Ordering::Relaxed);
    }

    pub(super) fn lose_record(&self) {
        self.0.lost.fetch_add(1, Ordering::Relaxed);
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
        if self.0.away.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.is_known() {
            tracing::warn!(%error, "the catalog does not answer; what it said last stays in force");
        } else if self.is_usable() {
            tracing::warn!(
                %error,
                "the catalog does not answer, and this node never knew it; it serves without (catalog_required: false)"
            );
        } else {
            tracing::error!(
                %error,
                "not ready: the catalog does not answer, and this node never knew it (see catalog_required)"
            );
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
