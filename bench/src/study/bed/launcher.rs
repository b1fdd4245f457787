//! Finds the programs that every server needs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::Options;
use crate::error::Error;
use crate::machine::repository;

/// The programs that start servers, and the service that every study measures.
pub(crate) struct Launcher {
    pub(crate) tidegate: PathBuf,
    /// Starts the other programs so that they end with this process.
    pub(super) setpriv: PathBuf,
    /// Binds the other programs to their core.
    pub(super) taskset: PathBuf,
}

impl Launcher {
    pub(crate) fn find(options: &Options) -> Result<Self, Error> {
        let tidegate = match &options.tidegate {
            // An absolute path, because the server runs in its own folder.
            Some(path) if path.is_file() => path.canonicalize().map_err(Error::io(path))?,
            Some(path) => return Err(missing(&path.display().to_string(), "name the program itself")),
            None => built("tidegate")?,
        };
        Ok(Self {
            tidegate,
            setpriv: installed("setpriv", "install util-linux")?,
            taskset: installed("taskset", "install util-linux")?,
        })
    }
}

/// Returns a program of the repository, which cargo puts beside this one: the two workspaces share a target folder.
pub(crate) fn built(name: &str) -> Result<PathBuf, Error> {
    let here = env::current_exe().map_err(Error::io(Path::new("/proc/self/exe")))?;
    let path = here.with_file_name(name);
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let remedy =
        format!("run `cargo build{profile}` in the root of the repository and in bench/, or see --tidegate");
    if path.is_file() { Ok(path) } else { Err(missing(&path.display().to_string(), &remedy)) }
}

/// Returns a program of the system, or one that `make bench-tools` has installed.
pub(crate) fn installed(name: &str, remedy: &str) -> Result<PathBuf, Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    // The PATH of some users lacks sbin, where NGINX is.
    let further = [repository().join(".tools/bin"), "/usr/sbin".into()];
    let mut places = env::split_paths(&path).chain(further).map(|folder| folder.join(name));
    places.find(|path| path.is_file()).ok_or_else(|| missing(name, remedy))
}

fn missing(what: &str, remedy: &str) -> Error {
    Error::Wrong(format!("{what} is missing: {remedy}"))
}

/// Returns the version that a program prints, on either output.
pub(crate) fn version(program: &Path, argument: &str) -> String {
    let said = Command::new(program).arg(argument).output();
    let text = said.map(|said| if said.stdout.is_empty() { said.stderr } else { said.stdout });
    let text = text.unwrap_or_default();
    version_in(&String::from_utf8_lossy(&text)).unwrap_or("unknown").to_owned()
}

/// Returns the first word of the first line that has a digit, without `name/` and `v=`.
fn version_in(text: &str) -> Option<&str> {
    let mut words = text.lines().next()?.split_whitespace();
    let word = words.find(|word| word.contains(|c: char| c.is_ascii_digit()))?;
    word.rsplit(['/', '=']).next()
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(version_in("nginx version: nginx/1.22.1\n"), Some("1.22.1"));
        assert_eq!(version_in("throttlecrab-server 0.4.40"), Some("0.4.40"));
        assert_eq!(version_in("Redis server v=7.0.15 sha=00000000:0"), Some("7.0.15"));
        assert_eq!(version_in(""), None);
    }
}
