//! The programs that are measured, and where they are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::Options;
use crate::error::Error;
use crate::finding::Table;
use crate::machine::{locked_version, workspace};

/// Every program that is started.
pub(crate) struct Programs {
    pub(super) tidegate: PathBuf,
    /// The constants with Tidegate's allocator.
    pub(super) constant: PathBuf,
    /// The constants with the allocator of the system.
    pub(super) constant_stock: PathBuf,
    pub(super) throttlecrab: PathBuf,
    pub(super) nginx: PathBuf,
    /// Starts the others such that they end with this process.
    pub(super) setpriv: PathBuf,
    /// Binds the others to their core.
    pub(super) taskset: PathBuf,
}

impl Programs {
    /// Finds all of them, or says how to get the one that is missing.
    pub(crate) fn find(options: &Options) -> Result<Self, Error> {
        let tidegate = match &options.tidegate {
            Some(path) if path.is_file() => path.clone(),
            Some(path) => return Err(missing(&path.display().to_string(), "name the program itself")),
            None => built("tidegate")?,
        };
        let tools = "run `make bench-tools`, or `cargo install --locked --root .tools throttlecrab-server`, \
                     which needs protoc (`apt-get install protobuf-compiler`)";
        Ok(Self {
            tidegate,
            constant: built("tidegate-bench-constant")?,
            constant_stock: built("tidegate-bench-constant-stock")?,
            throttlecrab: installed("throttlecrab-server", tools)?,
            nginx: installed("nginx", "run `make bench-tools`, or `apt-get install nginx-light`")?,
            setpriv: installed("setpriv", "install util-linux")?,
            taskset: installed("taskset", "install util-linux")?,
        })
    }

    /// What was measured: which version, and how it is started.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new("What was measured", ["", "version", "started as"]);
        let stack =
            |crates: [&str; 2]| crates.map(|name| format!("{name} {}", locked_version(name))).join(", ");
        let version =
            |program: &Path, argument| version(program, argument).unwrap_or_else(|| "unknown".into());
        let rows = [
            (
                "Tidegate",
                version(&self.tidegate, "--version"),
                "`tidegate serve --rules … --data … --grpc … --http … --admin …`, memory store",
            ),
            (
                "throttlecrab",
                version(&self.throttlecrab, "--version"),
                "`throttlecrab-server --grpc --grpc-host 127.0.0.1 --grpc-port …`",
            ),
            (
                "NGINX",
                version(&self.nginx, "-v"),
                "`nginx -p … -c …`, one process, `limit_req` by `$arg_key` before `empty_gif`",
            ),
            ("tonic, constant", stack(["tonic", "tokio"]), "`tidegate-bench-constant-stock tonic-multi …`"),
            (
                "the same stack, constant",
                stack(["tidegate-http2", "tokio"]),
                "`tidegate-bench-constant own …`",
            ),
            ("hyper, constant", stack(["hyper", "tokio"]), "`tidegate-bench-constant hyper …` or `http …`"),
        ];
        for (name, version, how) in rows {
            table.row([name, &version, how]);
        }
        table
    }
}

/// A program of this workspace, which cargo puts beside this one.
fn built(name: &str) -> Result<PathBuf, Error> {
    let here = env::current_exe().map_err(Error::io(Path::new("/proc/self/exe")))?;
    let path = here.with_file_name(name);
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let remedy =
        format!("run `cargo build{profile} -p tidegate-server -p tidegate-bench --bins`, or see --tidegate");
    if path.is_file() { Ok(path) } else { Err(missing(&path.display().to_string(), &remedy)) }
}

/// A program of the system, or one that `make bench-tools` has installed.
fn installed(name: &str, remedy: &str) -> Result<PathBuf, Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Not every user's PATH has sbin, where NGINX is.
    let further = [workspace().join(".tools/bin"), "/usr/sbin".into()];
    let mut places = env::split_paths(&path).chain(further).map(|folder| folder.join(name));
    places.find(|path| path.is_file()).ok_or_else(|| missing(name, remedy))
}

fn missing(what: &str, remedy: &str) -> Error {
    Error::Wrong(format!("{what} is missing: {remedy}"))
}

/// What a program says of its version, on whichever output.
fn version(program: &Path, argument: &str) -> Option<String> {
    let said = Command::new(program).arg(argument).output().ok()?;
    let text = if said.stdout.is_empty() { said.stderr } else { said.stdout };
    version_in(&String::from_utf8_lossy(&text)).map(str::to_owned)
}

/// The first word of the first line that has a digit, less `name/`.
fn version_in(text: &str) -> Option<&str> {
    let mut words = text.lines().next()?.split_whitespace();
    let word = words.find(|word| word.contains(|c: char| c.is_ascii_digit()))?;
    word.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(version_in("nginx version: nginx/1.22.1\n"), Some("1.22.1"));
        assert_eq!(version_in("throttlecrab-server 0.4.40"), Some("0.4.40"));
        assert_eq!(version_in(""), None);
    }
}
