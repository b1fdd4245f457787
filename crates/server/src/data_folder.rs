//! The folder for data that survives a restart. Only one process can use it at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A data folder that is locked for this process until it is dropped.
pub struct DataFolder {
    path: PathBuf,
    /// The locked file. The system releases the lock when the process ends.
    _lock: File,
}

/// Why a data folder cannot be used.
#[derive(Debug, Error)]
pub enum DataFolderError {
    /// Another process uses it.
    #[error(
        "the data folder {path} is in use by another process; stop that one, or choose another folder (data)"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It cannot be created or written.
    #[error("the data folder {path} cannot be used: {source}; make it writable, or choose another (data)")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl DataFolder {
    /// Creates the folder if it does not exist, and locks it.
    ///
    /// # Errors
    /// If another process uses it, or it cannot be written.
    pub fn open(path: &Path) -> Result<Self, DataFolderError> {
        let unusable = |source| DataFolderError::Unusable { path: path.to_owned(), source };
        // Only the owner may read the counters, the catalog and the token.
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let lock = own_file().create(true).truncate(false).open(path.join("lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataFolderError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        // An existing lock file does not show that the folder is writable. It is better to fail now than at the last
        // snapshot.
        probe(path).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the token that this node generates for itself.
    pub fn admin_token(&self) -> PathBuf {
        self.path.join("admin-token")
    }

    /// Returns the folder of the audit trail.
    pub fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }

    /// Returns a secret of this folder, which is drawn at random when it is first asked for.
    ///
    /// # Errors
    /// If it can be neither read nor written.
    pub fn secret(&self) -> Result<Vec<u8>, DataFolderError> {
        let path = self.path.join("secret");
        let unusable = |source| DataFolderError::Unusable { path: path.clone(), source };
        if !path.try_exists().map_err(unusable)? {
            let mut random = [0; 32];
            getrandom::fill(&mut random).map_err(|error| unusable(io::Error::other(error.to_string())))?;
            let file = own_file().create_new(true).open(&path);
            file.and_then(|mut file| file.write_all(&random)).map_err(unusable)?;
        }
        fs::read(&path).map_err(unusable)
    }

    /// Returns the path of the recorder's history.
    pub fn history(&self) -> PathBuf {
        self.path.join("history")
    }

    /// Returns the path of the snapshot of the counters.
    pub fn counters(&self) -> PathBuf {
        self.path.join("counters")
    }
}

/// Returns the options for files in the folder: for their owner only, and not through a symbolic link, which could point
/// to a file elsewhere.
fn own_file() -> OpenOptions {
    let mut options = File::options();
    let not_followed = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    options.write(true).mode(0o600).custom_flags(not_followed);
    options
}

/// Writes a new file with a random name, and removes it.
fn probe(folder: &Path) -> io::Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let file = folder.join(format!("probe-{:016x}", u64::from_le_bytes(random)));
    let written = own_file().create_new(true).open(&file).and_then(|mut probe| probe.write_all(b"x"));
    match written {
        // The file belongs to another process, and is not removed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        written => written.and(fs::remove_file(&file)),
    }
}
