//! Where the programs are.

use std::env;
use std::fs;
use std::path::PathBuf;

const VARIABLE: &str = "TIDEGATE_POSTGRES_BIN";

/// A program of `PostgreSQL`'s: from the folder that `TIDEGATE_POSTGRES_BIN` names, else from the newest one
/// of Debian's package, which keeps servers off the `PATH`, else from the `PATH` or where root has its programs.
///
/// # Panics
///
/// If it is nowhere.
pub fn program(name: &str) -> PathBuf {
    let mut places: Vec<PathBuf> = match env::var_os(VARIABLE) {
        Some(named) => vec![named.into()],
        None => versions(),
    };
    places.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    places.push("/usr/sbin".into());
    let mut files = places.into_iter().map(|folder| folder.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!(
            "{name} is missing: `make test-tools` installs it (Debian's packages postgresql and pgbouncer), \
             or name its folder in {VARIABLE}"
        )
    })
}

/// The newest first.
fn versions() -> Vec<PathBuf> {
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, PathBuf)> = folders
        .filter_map(|folder| Some((folder.file_name().to_str()?.parse().ok()?, folder.path().join("bin"))))
        .collect();
    numbered.sort();
    numbered.into_iter().rev().map(|(_, folder)| folder).collect()
}
