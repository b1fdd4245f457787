//! Rules that change while they are in force.

#[cfg(feature = "redis")]
mod between;
mod counters;
mod folders;
mod refused;
mod under_load;
mod writers;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::{Limiter, VirtualClock};

use crate::support::{by, wait_until};

/// A folder for rule files, and the clock of the limiters that read them.
struct Rules {
    folder: TempDir,
    clock: VirtualClock,
}

impl Rules {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("the disk is well"), clock: VirtualClock::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the disk is well");
    }

    /// A limiter that looks for changes by itself.
    fn watched(&self, path: impl AsRef<Path>) -> Limiter {
        Limiter::builder().rules(path).clock(self.clock.clone()).build().expect("good rules")
    }

    /// A limiter that reads its rules when it is told to.
    fn unwatched(&self, path: impl AsRef<Path>) -> Limiter {
        let builder = Limiter::builder().rules(path).watch(false).clock(self.clock.clone());
        builder.build().expect("good rules")
    }
}

/// A file that limits each value of `k` in domain `d`.
fn limit(requests: u64) -> String {
    format!(
        "domain: d\ndescriptors: [{{key: k, limits: [{{requests: {requests}, per: hour, algorithm: fixed_window}}]}}]\n"
    )
}

/// The number in force; none where no rule is.
fn in_force(limiter: &Limiter) -> Option<u64> {
    let decision = limiter.peek_now(&by("anybody"));
    decision.decided_by().map(|limit| limit.limit.requests())
}

/// Waits until this number is in force, and prints how long that took.
fn expect_soon(limiter: &Limiter, how: &str, requests: u64) {
    let took = wait_until(how, || in_force(limiter) == Some(requests));
    println!("{how}: in force after {} ms", took.as_millis());
}
