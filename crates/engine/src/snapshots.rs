//! The snapshots of a limiter, and their health.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_core::Micros;
use tidegate_stores::memory::{MemoryStore, SnapshotError, SnapshotSummary};

/// Writes snapshots to a file, and keeps statistics.
pub(crate) struct Snapshots {
    path: PathBuf,
    /// When the last one was written; 0 if none was.
    written_at_us: AtomicU64,
    took_us: AtomicU64,
    failures: AtomicU64,
}

/// Statistics of a limiter's snapshots since it was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHealth {
    /// When the last snapshot was written; `None` if there was none yet.
    pub written_at: Option<Micros>,
    /// How long writing the last snapshot took.
    pub took: Duration,
    /// The number of snapshots that could not be written.
    pub failures: u64,
}

impl Snapshots {
    pub(crate) fn to(path: PathBuf) -> Self {
        Self {
            path,
            written_at_us: AtomicU64::new(0),
            took_us: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Writes a snapshot.
    pub(crate) fn write(&self, store: &MemoryStore) -> Result<SnapshotSummary, SnapshotError> {
        let begun = store.now();
        let written = store.snapshot(&self.path);
        let ended = store.now();
        if written.is_ok() {
            self.took_us.store(ended.since(begun), Relaxed);
            self.written_at_us.store(ended.0, Relaxed);
        } else {
            self.failures.fetch_add(1, Relaxed);
        }
        written
    }

    pub(crate) fn health(&self) -> SnapshotHealth {
        let written_at = Micros(self.written_at_us.load(Relaxed));
        SnapshotHealth {
            written_at: (written_at > Micros(0)).then_some(written_at),
            took: Duration::from_micros(self.took_us.load(Relaxed)),
            failures: self.failures.load(Relaxed),
        }
    }
}
