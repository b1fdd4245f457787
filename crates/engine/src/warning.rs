//! A warning for programs that build a limiter per request, logged once per process.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A program that builds more limiters than this within [`A_WHILE`] probably builds one per request.
const MOST_BUILT: u32 = 100;

const A_WHILE: Duration = Duration::from_mins(1);

static TOLD: AtomicBool = AtomicBool::new(false);

/// When the first counted limiter was built, and how many were built since.
static BUILT: Mutex<Option<(Instant, u32)>> = Mutex::new(None);

/// Logs that limiters are built while requests are handled.
pub fn limiter_per_request() {
    if !TOLD.swap(true, Relaxed) {
        tracing::warn!(
            "TIDEGATE_LIMITER_PER_REQUEST: limiters are made per request, each with full limits; make one, clone it"
        );
    }
}

/// Counts limiters, and warns if too many are built in a short time.
pub(crate) fn one_is_built() {
    let now = Instant::now();
    let mut built = BUILT.lock();
    let (since, before) = built.filter(|(since, _)| now - *since < A_WHILE).unwrap_or((now, 0));
    *built = Some((since, before.saturating_add(1)));
    if before >= MOST_BUILT {
        limiter_per_request();
    }
}
