//! Looking for what is awaited instead of sleeping, for as long as that pays.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

/// How one thing is awaited that comes again and again.
///
/// Who sleeps has to be woken by another core, and that takes about as long as Redis takes for its answer.
/// Who looks instead needs the whole core. So it is looked for only if it mostly came in time before.
pub(super) struct Vigil {
    longest: Duration,
    /// More with everything that came in time, less by twice as much with everything that did not.
    luck: u8,
}

impl Vigil {
    /// From here on it is looked for: two of three come in time.
    const ENOUGH: u8 = 4;
    const MOST: u8 = 8;

    /// One that looks for at most so long each time; zero never does.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, luck: Self::ENOUGH }
    }

    /// Awaits something.
    pub(super) async fn keep<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        if self.longest.is_zero() {
            return awaited.await;
        }
        let began = Instant::now();
        let until = if self.luck < Self::ENOUGH { began } else { began + self.longest };
        let came = tokio::select! {
            biased;
            came = awaited => came,
            never = stay_awake(until) => match never {},
        };
        let in_time = began.elapsed() <= self.longest;
        self.luck = if in_time { Self::MOST.min(self.luck + 1) } else { self.luck.saturating_sub(2) };
        came
    }
}

/// Keeps this thread from sleeping.
async fn stay_awake(until: Instant) -> Infallible {
    while Instant::now() < until {
        yield_now().await;
    }
    pending().await
}
