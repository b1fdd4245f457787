//! Tokens that lie in files of this node: the one it makes for itself, and one it is given.
//!
//! Who can read the data folder can do everything anyway, so the node's own token is an administrator's. It
//! is how the first token of the catalog is made.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate_catalog::Role;

use super::{Book, Secret};

/// Why a file's token cannot be had. Each message says what to do.
#[derive(Debug, Error)]
pub enum OwnTokenError {
    /// The file cannot be read or written.
    #[error("the token in {path} cannot be used: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It has something else in it.
    #[error("{path} has no token in it: it must be one line, tg_…; {instead}")]
    NoToken {
        /// The file.
        path: PathBuf,
        /// What to do.
        instead: &'static str,
    },
}

/// What these tokens are called.
pub const NAMES: [&str; 2] = ["node", "token_file"];

/// Adds the token that this node made for itself, in the data folder; makes it if there is none.
///
/// # Errors
/// If the file cannot be read or written, or has something else in it.
pub fn generated(book: &Book, path: &Path) -> Result<(), OwnTokenError> {
    let unusable = |source| OwnTokenError::Unusable { path: path.to_owned(), source };
    if !path.try_exists().map_err(unusable)? {
        let token = Secret::generate().map_err(|error| unusable(io::Error::other(error.to_string())))?;
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(unusable)?;
        writeln!(file, "{}", token.reveal()).and_then(|()| file.sync_all()).map_err(unusable)?;
    }
    read(book, NAMES[0], path, "remove it, and another is made at the next start")
}

/// Adds the token of a file that the settings name (`admin.token_file`).
///
/// # Errors
/// If the file cannot be read, or has something else in it.
pub fn given(book: &Book, path: &Path) -> Result<(), OwnTokenError> {
    read(book, NAMES[1], path, "make one with `tidegate token generate`")
}

fn read(book: &Book, name: &str, path: &Path, instead: &'static str) -> Result<(), OwnTokenError> {
    let text = fs::read_to_string(path)
        .map_err(|source| OwnTokenError::Unusable { path: path.to_owned(), source })?;
    let token = Secret::parse(text.trim())
        .ok_or_else(|| OwnTokenError::NoToken { path: path.to_owned(), instead })?;
    book.add_own(name, Role::Admin, token.id(), token.hash());
    Ok(())
}
