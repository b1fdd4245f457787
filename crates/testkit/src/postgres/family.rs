//! The child processes of a server: one for each connection, and some for background work.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Returns the child processes of a process.
pub(super) fn children(parent: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|number| parent_of(*number) == Some(parent)).filter_map(Pid::from_raw).collect()
}

/// Sends a signal to all children of a process. Those that have ended in the meantime are ignored.
pub(super) fn signal(parent: u32, signal: Signal) {
    for child in children(parent) {
        let _ = kill_process(child, signal);
    }
}

/// Removes the shared memory segment that a killed server leaves behind. The seventh line of its
/// `postmaster.pid` ends with the number of the segment.
pub(super) fn remove_memory(data: &Path) {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    if let Some(number) = text.lines().nth(6).and_then(|line| line.split_whitespace().last()) {
        let _ = Command::new("ipcrm").args(["-m", number]).stderr(Stdio::null()).status();
    }
}

/// Returns the parent from `/proc/PID/stat`: the second field after the name in parentheses.
fn parent_of(process: i32) -> Option<u32> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    line.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
