//! Finds the installed `PostgreSQL` programs.

use std::env;
use std::fs;
use std::path::PathBuf;

const VARIABLE: &str = "TIDEGATE_POSTGRES_BIN";

/// Returns the path of a `PostgreSQL` program: from the folder that `TIDEGATE_POSTGRES_BIN` names, else from
/// the newest version of the Debian package, which is not on the `PATH`, else from the `PATH` or `/usr/sbin`.
///
/// # Panics
///
/// Panics if the program is not found.
pub fn program(name: &str) -> PathBuf {
    let mut folders: Vec<PathBuf> = match env::var_os(VARIABLE) {
        Some(named) => vec![named.into()],
        None => versions(),
    };
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    folders.push("/usr/sbin".into());
    let mut files = folders.into_iter().map(|folder| folder.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!(
            "{name} is missing: `make test-tools` installs it (Debian's packages postgresql and pgbouncer), \
             or name its folder in {VARIABLE}"
        )
    })
}

/// Returns the program folders of the installed Debian packages, the newest version first.
fn versions() -> Vec<PathBuf> {
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, PathBuf)> = folders
        .filter_map(|folder| Some((folder.file_name().to_str()?.parse().ok()?, folder.path().join("bin"))))
        .collect();
    numbered.sort();
    numbered.into_iter().rev().map(|(_, folder)| folder).collect()
}
