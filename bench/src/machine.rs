//! Describes the machine and the versions that were measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::finding::Table;

/// The hardware and software that the figures depend on.
#[derive(Serialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
    rustc: String,
    governor: String,
    commit: String,
    /// The load average when the measurements began.
    load: String,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, label: &str| {
            let line = text.lines().find(|line| line.starts_with(label)).unwrap_or_default();
            line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_owned()
        };
        let memory_kib = after(&read("/proc/meminfo"), "MemTotal");
        let memory_kib: u64 = memory_kib.trim_end_matches(" kB").parse().unwrap_or(0);
        let root = repository();
        let git = |arguments: &[&str]| said(Command::new("git").arg("-C").arg(&root).args(arguments));
        let changed = !git(&["status", "--porcelain", "--", "crates", "bench", "Cargo.toml"]).is_empty();
        let commit = git(&["rev-parse", "--short", "HEAD"]);
        Self {
            processor: after(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (memory_kib + (1 << 19)) >> 20,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            rustc: said(Command::new("rustc").arg("--version")),
            governor: locked_version("governor"),
            commit: if changed { format!("{commit} with changes") } else { commit },
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new("", ["", ""]);
        let memory = format!("{} GiB", self.memory_gib);
        table.row(["processor", &format!("{}, {} cores", self.processor, self.cores)]);
        table.row(["memory", &memory]);
        table.row(["kernel", &self.kernel]);
        table.row(["compiler", &self.rustc]);
        table.row(["governor", &self.governor]);
        table.row(["commit", &self.commit]);
        table.row(["load when it began", &self.load]);
        table
    }
}

/// Returns the standard output of a program, or an empty string if it cannot be run.
fn said(command: &mut Command) -> String {
    let output = command.output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns the version of a crate in the lock file.
pub(crate) fn locked_version(name: &str) -> String {
    const LOCK: &str = include_str!("../Cargo.lock");
    let mut lines = LOCK.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
    version.unwrap_or("unknown").trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::locked_version;

    #[test]
    fn the_version_of_governor_is_known() {
        assert!(locked_version("governor").starts_with("0.10."));
    }
}
