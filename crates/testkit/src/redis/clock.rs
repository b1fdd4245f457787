//! A clock of a server's own, by libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::program;
use super::server::RedisServer;

const FILE: &str = "clock";
/// Much more than what passes between two looks at clocks, and less than any jump.
const NEAR_MICROS: i128 = 500_000;

/// Makes the process read its clock from a file of this folder.
pub(super) fn fake(command: &mut Command, folder: &Path) {
    command.env("LD_PRELOAD", program::faketime());
    command.env("FAKETIME_TIMESTAMP_FILE", folder.join(FILE));
    // A jump is seen by the very next command.
    command.env("FAKETIME_NO_CACHE", "1");
    // Only the time of day jumps: timers and the event loop go by the other clock, as on real machines.
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Sets the clock that far from the true time.
pub(super) fn set(folder: &Path, offset_seconds: i64) {
    // Renamed into place: the file is read at every look at the clock, and must never be half written.
    let next = folder.join("clock.next");
    let written = fs::write(&next, format!("{offset_seconds:+}\n"));
    written.and_then(|()| fs::rename(&next, folder.join(FILE))).expect("the folder can be written");
}

/// Whether scripts see that clock.
pub(super) fn shows(server: &RedisServer, offset_seconds: i64) -> bool {
    let reply = server.command(&["EVAL", "return redis.call('TIME')", "0"]);
    let [seconds, micros] = [0, 1].map(|index| i128::from(reply.items()[index].integer()));
    let truth = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970").as_micros();
    let offset_micros = seconds * 1_000_000 + micros - truth.cast_signed();
    (offset_micros - i128::from(offset_seconds) * 1_000_000).abs() < NEAR_MICROS
}

/// What libfaketime leaves behind if its process is killed.
pub(super) fn leftovers(process: u32) -> Vec<PathBuf> {
    vec![
        format!("/dev/shm/faketime_shm_{process}").into(),
        format!("/dev/shm/sem.faketime_sem_{process}").into(),
    ]
}
