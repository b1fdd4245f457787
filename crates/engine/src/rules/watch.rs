//! Noticing that rule files have changed.
//!
//! Files are looked at, not watched: one `stat` per file a few times a second sees every way a file
//! can change (plain writes, editors that rename, symbolic links swapped by Kubernetes at any level,
//! network file systems), which no notification interface does. See docs/adr/0004.

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::file::is_rule_file;

/// What rule files look like from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look(Vec<(OsString, Option<FileLook>)>);

/// Enough of a file's metadata to tell that it was written or exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileLook {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// Paths, and what they looked like when rules were last loaded from them.
pub(crate) struct Watch {
    paths: Vec<PathBuf>,
    loaded: Look,
    /// What they looked like at the last poll, if that was something new.
    seen: Option<Look>,
}

impl Watch {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, loaded: Look::default(), seen: None }
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Remembers what is about to be read. A change during the reading is then seen as one.
    pub(crate) fn begin_load(&mut self) {
        self.loaded = self.look();
        self.seen = None;
    }

    /// Whether anything has changed since [`Watch::begin_load`].
    pub(crate) fn changed(&self) -> bool {
        self.look() != self.loaded
    }

    /// Whether there is something new that has held still since the last poll, so that a file is
    /// not read while it is being written.
    pub(crate) fn poll(&mut self) -> bool {
        let look = self.look();
        if look == self.loaded {
            self.seen = None;
            return false;
        }
        let settled = self.seen.as_ref() == Some(&look);
        self.seen = Some(look);
        settled
    }

    fn look(&self) -> Look {
        let mut look = Look::default();
        for path in &self.paths {
            look.add(path);
            if path.is_dir() {
                let listing = std::fs::read_dir(path).into_iter().flatten().flatten();
                let mut files: Vec<_> = listing.map(|entry| entry.path()).collect();
                files.sort_unstable();
                files.iter().filter(|file| is_rule_file(file)).for_each(|file| look.add(file));
            }
        }
        look
    }
}

impl Look {
    fn add(&mut self, path: &Path) {
        // Follows symbolic links: what counts is the file at the end of them.
        let file = std::fs::metadata(path).ok().map(|metadata| FileLook::of(&metadata));
        self.0.push((path.as_os_str().to_owned(), file));
    }
}

impl FileLook {
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
