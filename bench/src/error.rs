//! Errors of studies.

use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate::BuildError;
use tidegate_load::LoadError;
use tidegate_stores::memory::SnapshotError;

/// Reasons a study has no result.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Limiter(#[from] BuildError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{path}: the plot could not be drawn: {reason}")]
    Plot { path: PathBuf, reason: String },
    /// The study does not measure what it claims to.
    #[error("{0}")]
    Wrong(String),
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Returns an error if a study does not measure what it claims to.
pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Wrong(otherwise())) }
}
