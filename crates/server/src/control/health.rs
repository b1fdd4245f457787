//! The health of the catalog as this node sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::clock::CatalogClock;
use super::switches::SwitchState;

/// The health of the catalog as this node sees it. Clones share their state.
#[derive(Clone, Default)]
pub struct CatalogHealth(Arc<State>);

#[derive(Default)]
struct State {
    clock: CatalogClock,
    /// Whether this node has read the catalog, or a copy of it.
    known: AtomicBool,
    /// Whether this node is not ready before it has read the catalog.
    required: AtomicBool,
    switches: Mutex<Vec<SwitchState>>,
    /// Changes that are not in the audit files yet.
    unrecorded: AtomicU64,
    /// Changes that are missing in the audit files and will stay so.
    lost: AtomicU64,
    version: AtomicU64,
    away: AtomicBool,
    failures: AtomicU64,
    /// Why the rules of the catalog are not in force, if they are not.
    refused: Mutex<Option<String>>,
}

impl CatalogHealth {
    /// Returns the version that is in force on this node.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed)
    }

    /// Returns whether the last call to the catalog succeeded.
    pub fn is_reachable(&self) -> bool {
        !self.0.away.load(Ordering::Relaxed)
    }

    /// Returns how many calls to the catalog failed.
    pub fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    /// Returns why the rules of the catalog are not in force, if they are not.
    pub fn refused(&self) -> Option<String> {
        self.0.refused.lock().clone()
    }

    /// Returns whether this node may decide: it has read the catalog, or need not.
    pub fn is_usable(&self) -> bool {
        self.0.known.load(Ordering::Acquire) || !self.0.required.load(Ordering::Relaxed)
    }

    /// Returns whether this node has read the catalog, or a copy of it.
    pub fn is_known(&self) -> bool {
        self.0.known.load(Ordering::Acquire)
    }

    /// Returns the catalog's clock.
    pub fn clock(&self) -> &CatalogClock {
        &self.0.clock
    }

    /// Returns every switch that is set.
    pub fn switches(&self) -> Vec<SwitchState> {
        self.0.switches.lock().clone()
    }

    /// Returns how many changes are not in the audit files yet: they are being written, the disk rejects them, or the
    /// catalog did not reply to their commit.
    pub fn unrecorded(&self) -> u64 {
        self.0.unrecorded.load(Ordering::Relaxed)
    }

    /// Returns how many changes are missing in the audit files and will stay so, besides those the trail counts.
    pub fn lost_records(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    pub(super) fn new(clock: CatalogClock, required: bool) -> Self {
        Self(Arc::new(State { clock, required: required.into(), ..State::default() }))
    }

    /// Notes that this node has read the catalog.
    pub(super) fn set_known(&self) {
        if !self.0.known.swap(true, Ordering::Release) && self.0.away.load(Ordering::Relaxed) {
            tracing::info!("the catalog was read for the first time");
        }
    }

    pub(super) fn set_switches(&self, switches: Vec<SwitchState>) {
        *self.0.switches.lock() = switches;
    }

    /// Counts a change that is not in the audit files yet, and returns how many there are.
    pub(super) fn add_unrecorded(&self) -> u64 {
        self.0.unrecorded.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn remove_unrecorded(&self) {
        self.0.unrecorded.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn lose_record(&self) {
        self.0.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reached(&self, version: u64) {
        self.0.version.store(version, Ordering::Relaxed);
    }

    pub(super) fn answered(&self) {
        if self.0.away.swap(false, Ordering::Relaxed) {
            tracing::info!("the catalog is reachable again");
        }
    }

    pub(super) fn failed(&self, error: &dyn std::fmt::Display) {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
        if self.0.away.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.is_known() {
            tracing::warn!(%error, "the catalog is unreachable; what was read last stays in force");
        } else if self.is_usable() {
            tracing::warn!(
                %error,
                "the catalog is unreachable, and this node has never read it; it serves without (catalog_required: false)"
            );
        } else {
            tracing::error!(
                %error,
                "not ready: the catalog is unreachable, and this node has never read it (see catalog_required)"
            );
        }
    }

    pub(super) fn set_refused(&self, reason: Option<String>) {
        let mut refused = self.0.refused.lock();
        if let Some(reason) = reason.as_ref().filter(|_| *refused != reason) {
            tracing::error!(reason, "the catalog's rules are refused; the last good ones stay in force");
        }
        *refused = reason;
    }
}
