//! Waits for conditions in other processes.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits before it gives up. Far more than anything takes normally.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The interval between polls grows from the shortest to the longest: short waits end quickly, and long
/// waits take little CPU time from the process waited for.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_millis(50);

/// Polls `look` until it returns a value, and returns that value.
///
/// # Panics
///
/// Panics after [`PATIENCE`]. The message names `what` was waited for.
#[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        let waited = start.elapsed();
        assert!(waited < PATIENCE, "gave up waiting until {what}");
        thread::sleep((waited / 20).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL));
    }
}
