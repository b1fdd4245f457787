//! The memory that the system allows the process, and what it uses.

use std::fmt;
use std::fs;
use std::path::Path;

/// The source of the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `memory.max_bytes`.
    Setting,
    /// The limit of the control group, such as a container.
    Cgroup,
    /// The machine's memory.
    Machine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Setting => "memory.max_bytes",
            Self::Cgroup => "the control group",
            Self::Machine => "the machine",
        })
    }
}

/// Returns nine tenths of the limit of the control group, or else half of the machine's memory, which other processes
/// need too.
pub(super) fn limit() -> (u64, Source) {
    let info = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "their width depends on the system")]
    let machine = u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit.max(1)));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match limit_of_cgroup(Path::new("/sys/fs/cgroup"), &own) {
        Some(bytes) if bytes < machine => (bytes / 10 * 9, Source::Cgroup),
        _ => (machine / 2, Source::Machine),
    }
}

/// Returns the lowest limit of a control group and its ancestors, of either version; `None` if there is none. `own` is the
/// content of `/proc/self/cgroup`, `root` is where control groups are mounted.
pub fn limit_of_cgroup(root: &Path, own: &str) -> Option<u64> {
    let groups = own.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        if controllers.is_empty() {
            Some((root.to_owned(), "memory.max", path))
        } else {
            let is_memory = controllers.split(',').any(|name| name == "memory");
            is_memory.then(|| (root.join("memory"), "memory.limit_in_bytes", path))
        }
    });
    groups.filter_map(|(mount, file, path)| least(&mount, file, path)).min()
}

/// Returns the lowest limit of a group and its ancestors. A group without a limit has `max`, or a very large number.
fn least(mount: &Path, file: &str, path: &str) -> Option<u64> {
    let of = |folder: &Path| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    let group = mount.join(path.trim_start_matches('/'));
    // In a container the path may be the one outside of it, and then only the root exists.
    group.ancestors().take_while(|folder| folder.starts_with(mount)).filter_map(of).min()
}

/// Returns the resident memory of the process in bytes; `None` if it cannot be read.
pub fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(resident * rustix::param::page_size() as u64)
}
