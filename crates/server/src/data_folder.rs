//! The folder for what outlives a restart. One process at a time has it.

use std::fs::{self, File, TryLockError};
use std::io;
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
        fs::create_dir_all(path).map_err(unusable)?;
        let file = path.join("lock");
        let lock = File::options().write(true).create(true).truncate(false).open(file).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataFolderError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        // A lock that was there before says nothing about the folder; better now than with the last snapshot.
        let probe = path.join("probe");
        fs::write(&probe, "x").and_then(|()| fs::remove_file(&probe)).map_err(unusable)?;
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
