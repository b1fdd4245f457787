//! Detects changes of rule files.
//!
//! Files are polled: one `stat` per file a few times per second detects every kind of change (plain writes,
//! editors that rename, symbolic links swapped by Kubernetes at any level, network file systems), which no
//! notification interface does. See docs/adr/0004.

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::rules::file::is_rule_file;

/// The metadata of all rule files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Snapshot(Vec<(OsString, Option<FileStamp>)>);

/// The metadata that shows whether a file was written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// The paths of rules, and their metadata when rules were last loaded from them.
pub(crate) struct Watch {
    paths: Vec<PathBuf>,
    loaded: Snapshot,
    /// The metadata at the last poll, if it differed from `loaded`.
    seen: Option<Snapshot>,
}

impl Watch {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, loaded: Snapshot::default(), seen: None }
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Records the metadata before files are read, so that a change during the read is detected.
    pub(crate) fn begin_load(&mut self) {
        self.loaded = self.snapshot();
        self.seen = None;
    }

    /// Returns whether anything has changed since [`Watch::begin_load`].
    pub(crate) fn changed(&self) -> bool {
        self.snapshot() != self.loaded
    }

    /// Returns whether files have changed since they were loaded, but not since the last poll. So a file is
    /// not read while it is being written.
    pub(crate) fn poll(&mut self) -> bool {
        let snapshot = self.snapshot();
        if snapshot == self.loaded {
            self.seen = None;
            return false;
        }
        let settled = self.seen.as_ref() == Some(&snapshot);
        self.seen = Some(snapshot);
        settled
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for path in &self.paths {
            snapshot.add(path);
            if path.is_dir() {
                let listing = std::fs::read_dir(path).into_iter().flatten().flatten();
                let mut files: Vec<_> = listing.map(|entry| entry.path()).collect();
                files.sort_unstable();
                files.iter().filter(|file| is_rule_file(file)).for_each(|file| snapshot.add(file));
            }
        }
        snapshot
    }
}

impl Snapshot {
    fn add(&mut self, path: &Path) {
        // Follows symbolic links, because the target file is what matters.
        let file = std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata));
        self.0.push((path.as_os_str().to_owned(), file));
    }
}

impl FileStamp {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> Self {
        let since = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let modified_ns = since.map_or(0, |since| since.as_nanos() as i128);
        Self { device: 0, inode: 0, bytes: metadata.len(), modified_ns, changed_ns: 0 }
    }
}
