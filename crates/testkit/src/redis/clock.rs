//! Fakes the clock of a server with libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::program;
use super::server::RedisServer;

const FILE: &str = "clock";
/// The tolerance when comparing clocks, in microseconds: much longer than two clock reads take, and shorter
/// than any jump.
const NEAR_MICROS: i128 = 500_000;

/// Makes the process read its clock offset from a file in `folder`.
pub(super) fn fake(command: &mut Command, folder: &Path) {
    command.env("LD_PRELOAD", program::faketime());
    command.env("FAKETIME_TIMESTAMP_FILE", folder.join(FILE));
    // Without the cache a jump is visible to the next command.
    command.env("FAKETIME_NO_CACHE", "1");
    // Only the wall clock jumps. Timers and the event loop use the monotonic clock, as on real machines.
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Sets the clock of the server to the true time plus `offset_seconds`.
pub(super) fn set(folder: &Path, offset_seconds: i64) {
    // Written to another file and renamed: the server reads the file at any time, and must not find it half
    // written.
    let next = folder.join("clock.next");
    let written = fs::write(&next, format!("{offset_seconds:+}\n"));
    written.and_then(|()| fs::rename(&next, folder.join(FILE))).expect("the folder can be written");
}

/// Returns whether scripts on the server see the clock with this offset.
pub(super) fn shows(server: &RedisServer, offset_seconds: i64) -> bool {
    let reply = server.command(&["EVAL", "return redis.call('TIME')", "0"]);
    let [seconds, micros] = [0, 1].map(|index| i128::from(reply.items()[index].integer()));
    let truth = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970").as_micros();
    let offset_micros = seconds * 1_000_000 + micros - truth.cast_signed();
    (offset_micros - i128::from(offset_seconds) * 1_000_000).abs() < NEAR_MICROS
}

/// Returns the files that libfaketime leaves behind if its process is killed.
pub(super) fn leftovers(process: u32) -> Vec<PathBuf> {
    vec![
        format!("/dev/shm/faketime_shm_{process}").into(),
        format!("/dev/shm/sem.faketime_sem_{process}").into(),
    ]
}
