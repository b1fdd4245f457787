//! A server is many processes: one for each connection, and some for itself.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The processes that this one has started.
pub(super) fn children(parent: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|number| parent_of(*number) == Some(parent)).filter_map(Pid::from_raw).collect()
}

/// Gives all of them a signal. Those that have ended in the meantime need none.
pub(super) fn signal(parent: u32, signal: Signal) {
    for child in children(parent) {
        let _ = kill_process(child, signal);
    }
}

/// A killed server leaves a segment of shared memory to the system, and a file whose seventh line ends with
/// its number.
pub(super) fn remove_memory(data: &Path) {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    if let Some(number) = text.lines().nth(6).and_then(|line| line.split_whitespace().last()) {
        let _ = Command::new("ipcrm").args(["-m", number]).stderr(Stdio::null()).status();
    }
}

/// The second thing after its name, which is in brackets.
fn parent_of(process: i32) -> Option<u32> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    line.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
