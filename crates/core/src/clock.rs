//! The source of time.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Micros;

/// A source of time.
///
/// A store reads it once per settlement, while it holds the locks of the counters involved. So the
/// states of one key are always written in the order of their times.
pub trait Clock: Any + Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Micros;
}

impl<C: Clock> Clock for Arc<C> {
    fn now(&self) -> Micros {
        (**self).now()
    }
}

/// A clock for tests that moves only when told to, forward or back. Clones share their time.
///
/// ```
/// use tidegate_core::{Clock, Micros, VirtualClock};
///
/// let clock = VirtualClock::at(Micros(5));
/// let same = clock.clone();
/// clock.advance_us(10);
/// assert_eq!(same.now(), Micros(15));
/// ```
#[derive(Clone, Debug)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// Creates a clock that shows a fixed time in November 2023.
    pub fn new() -> Self {
        Self::at(Micros(1_700_000_000_000_000))
    }

    /// Creates a clock that shows `now`.
    pub fn at(now: Micros) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// Moves the clock forward by `us` microseconds.
    pub fn advance_us(&self, us: u64) {
        self.0.fetch_add(us, Ordering::SeqCst);
    }

    /// Sets the clock to `now`, which may be before the time it shows.
    pub fn set(&self, now: Micros) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst))
    }
}
