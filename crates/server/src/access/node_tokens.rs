//! Tokens in files of this node: the one it generates for itself, and one that the settings name.
//!
//! A user who can read the data folder can do everything anyway, so the node's own token has the role admin. It is used to
//! create the first token of the catalog.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate_catalog::Role;

use super::{Secret, TokenRegistry};

/// Reasons the token in a file cannot be used. Each message tells what to do.
#[derive(Debug, Error)]
pub enum NodeTokenError {
    /// The file cannot be read or written.
    #[error("the token in {path} cannot be used: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file has no token in it.
    #[error("{path} has no token in it: it must be one line, tg_…; {instead}")]
    NoToken {
        /// The file.
        path: PathBuf,
        /// The remedy.
        instead: &'static str,
    },
}

/// The names of these tokens.
pub const NAMES: [&str; 2] = ["node", "token_file"];

/// Adds the token that this node generated for itself in the data folder. Generates it if there is none.
///
/// # Errors
/// If the file cannot be read or written, or has no token in it.
pub fn generated(registry: &TokenRegistry, path: &Path) -> Result<(), NodeTokenError> {
    let unusable = |source| NodeTokenError::Unusable { path: path.to_owned(), source };
    if !path.try_exists().map_err(unusable)? {
        let token = Secret::generate().map_err(|error| unusable(io::Error::other(error.to_string())))?;
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(unusable)?;
        writeln!(file, "{}", token.reveal()).and_then(|()| file.sync_all()).map_err(unusable)?;
    }
    read(registry, NAMES[0], path, "remove it, and another is generated at the next start")
}

/// Adds the token of the file that the settings name (`admin.token_file`).
///
/// # Errors
/// If the file cannot be read, or has no token in it.
pub fn given(registry: &TokenRegistry, path: &Path) -> Result<(), NodeTokenError> {
    read(registry, NAMES[1], path, "generate one with `tidegate token generate`")
}

fn read(
    registry: &TokenRegistry,
    name: &str,
    path: &Path,
    instead: &'static str,
) -> Result<(), NodeTokenError> {
    let text = fs::read_to_string(path)
        .map_err(|source| NodeTokenError::Unusable { path: path.to_owned(), source })?;
    let token = Secret::parse(text.trim())
        .ok_or_else(|| NodeTokenError::NoToken { path: path.to_owned(), instead })?;
    registry.add_own(name, Role::Admin, token.id(), token.hash());
    Ok(())
}
