//! Accounts for every unit that a node was granted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happened to the units that this node was granted: `granted = spent + held + returned + expired`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Units granted by the shared store.
    pub granted: u64,
    /// Units spent on requests.
    pub spent: u64,
    /// Units that are held now, which other nodes cannot use.
    pub held: u64,
    /// Units that were sent back to the shared store.
    pub returned: u64,
    /// Units that were neither spent nor returned. The shared store counts them as used.
    pub expired: u64,
    /// Number of calls to take or return units.
    pub calls: u64,
}

#[derive(Default)]
pub(super) struct Counts {
    granted: AtomicU64,
    spent: AtomicU64,
    returned: AtomicU64,
    expired: AtomicU64,
    calls: AtomicU64,
}

impl Counts {
    pub(super) fn granted(&self, units: u64) {
        self.granted.fetch_add(units, Relaxed);
        self.calls.fetch_add(1, Relaxed);
    }

    pub(super) fn spent(&self, units: u64) {
        self.spent.fetch_add(units, Relaxed);
    }

    pub(super) fn returned(&self, units: u64) {
        self.returned.fetch_add(units, Relaxed);
        self.calls.fetch_add(1, Relaxed);
    }

    pub(super) fn expired(&self, units: u64) {
        self.expired.fetch_add(units, Relaxed);
    }

    pub(super) fn read(&self) -> Ledger {
        Ledger {
            granted: self.granted.load(Relaxed),
            spent: self.spent.load(Relaxed),
            held: 0,
            returned: self.returned.load(Relaxed),
            expired: self.expired.load(Relaxed),
            calls: self.calls.load(Relaxed),
        }
    }
}
