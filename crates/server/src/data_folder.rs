//! The folder for what outlives a restart. One process at a time has it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A data folder that is ours for as long as this lives.
pub struct DataFolder {
    path: PathBuf,
    /// Locked; the lock goes with the process, however that ends.
    _lock: File,
}

/// Why a folder cannot be ours.
#[derive(Debug, Error)]
pub enum DataFolderError {
    /// Another process has it.
    #[error(
        "the data folder {path} is in use by another process; stop that one, or choose another folder (data)"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It cannot be made or written.
    #[error("the data folder {path} cannot be used: {source}; make it writable, or choose another (data)")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl DataFolder {
    /// Makes the folder if it is missing, and locks it.
    ///
    /// # Errors
    /// If another process has it, or it cannot be written.
    pub fn open(path: &Path) -> Result<Self, DataFolderError> {
        let unusable = |source| DataFolderError::Unusable { path: path.to_owned(), source };
        // Counters, the catalog and a token are nobody else's business.
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let lock = own_file().create(true).truncate(false).open(path.join("lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataFolderError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        // A lock that was there before says nothing about the folder; better now than with the last snapshot.
        probe(path).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the token lies that this node makes for itself.
    pub fn admin_token(&self) -> PathBuf {
        self.path.join("admin-token")
    }

    /// Where the audit trail goes.
    pub fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }

    /// Where counters go.
    pub fn counters(&self) -> PathBuf {
        self.path.join("counters")
    }
}

/// How files of the folder are opened: for their owner only, and never through a link, which could point at
/// somebody else's file.
fn own_file() -> OpenOptions {
    let mut options = File::options();
    let not_followed = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    options.write(true).mode(0o600).custom_flags(not_followed);
    options
}

/// Writes a file that was not there before, under a name that nobody can foresee, and removes it.
fn probe(folder: &Path) -> io::Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let file = folder.join(format!("probe-{:016x}", u64::from_le_bytes(random)));
    let written = own_file().create_new(true).open(&file).and_then(|mut probe| probe.write_all(b"x"));
    match written {
        // Somebody else's, and so not ours to remove.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        written => written.and(fs::remove_file(&file)),
    }
}
