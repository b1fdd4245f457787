//! Waiting for what happens in another process.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up: far more than it ever does.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What comes soon is seen soon, and what takes long is not held up by looking at it.
const LOOK_EVERY_AT_FIRST: Duration = Duration::from_millis(1);
const LOOK_EVERY_AT_LAST: Duration = Duration::from_millis(50);

/// Looks again and again until there is something to see, and gives it.
///
/// # Panics
///
/// After [`PATIENCE`], naming what was waited for.
#[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        let waited = start.elapsed();
        assert!(waited < PATIENCE, "gave up waiting until {what}");
        thread::sleep((waited / 20).clamp(LOOK_EVERY_AT_FIRST, LOOK_EVERY_AT_LAST));
    }
}
