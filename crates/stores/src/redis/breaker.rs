//! A circuit breaker, which keeps requests from a failing server.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quanta::Instant;

/// Failures in a row after which the breaker opens.
const MAX_FAILURES: u32 = 3;

/// How long it takes until all requests are let through after a server has recovered.
const RAMP: Duration = Duration::from_millis(500);

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// All requests are let through.
    Closed,
    /// No requests are let through: the server has failed.
    Open,
    /// A growing share of the requests is let through: the server has just recovered.
    Recovering,
}

impl Circuit {
    /// Returns the name that metrics and logs use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Recovering => "recovering",
        }
    }
}

/// Counts consecutive failures and keeps requests from a failing server.
#[derive(Debug)]
pub(super) struct Breaker {
    born: Instant,
    failures: AtomicU32,
    /// Milliseconds since `born` at which it opened, plus one; 0 while it is not open.
    opened: AtomicU64,
    /// Milliseconds since `born` at which it first opened since it was last fully closed.
    failing: AtomicU64,
    /// Milliseconds since `born` at which the server recovered, plus one; 0 if it never failed.
    returned: AtomicU64,
    turn: AtomicU32,
}

impl Breaker {
    pub(super) fn new() -> Self {
        Self {
            born: Instant::now(),
            failures: AtomicU32::new(0),
            opened: AtomicU64::new(0),
            failing: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            turn: AtomicU32::new(0),
        }
    }

    pub(super) fn circuit(&self) -> Circuit {
        if self.opened.load(Relaxed) > 0 {
            return Circuit::Open;
        }
        match self.returned.load(Relaxed) {
            0 => Circuit::Closed,
            returned if self.now_ms().saturating_sub(returned) < RAMP.as_millis() as u64 => {
                Circuit::Recovering
            }
            _ => {
                self.returned.store(0, Relaxed);
                Circuit::Closed
            }
        }
    }

    /// Returns how long the server has been failing. A recovery that did not last does not reset that time.
    pub(super) fn open_for(&self) -> Option<Duration> {
        let failing = self.failing.load(Relaxed);
        (self.circuit() != Circuit::Closed)
            .then(|| Duration::from_millis(self.now_ms().saturating_sub(failing)))
    }

    /// Returns whether another request may be sent to the server.
    pub(super) fn admits(&self) -> bool {
        match self.circuit() {
            Circuit::Closed => true,
            Circuit::Open => false,
            Circuit::Recovering => {
                let back_ms = self.now_ms().saturating_sub(self.returned.load(Relaxed));
                let turn = u64::from(self.turn.fetch_add(1, Relaxed) % 16);
                turn * RAMP.as_millis() as u64 <= 16 * back_ms
            }
        }
    }

    /// Resets the count of consecutive failures.
    pub(super) fn succeeded(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Counts a failure. Returns whether the breaker has opened just now.
    pub(super) fn failed(&self) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        let (now_ms, returned) = (self.now_ms(), self.returned.load(Relaxed) > 0);
        if failures < MAX_FAILURES && !returned || self.opened.load(Relaxed) > 0 {
            return false;
        }
        // Set before the breaker opens, because `open_for` may be called as soon as it is open.
        if !returned {
            self.failing.store(now_ms, Relaxed);
        }
        self.opened.compare_exchange(0, now_ms, Relaxed, Relaxed).is_ok()
    }

    /// Lets traffic through again, because the server works. Returns whether the breaker was open.
    pub(super) fn close(&self) -> bool {
        self.failures.store(0, Relaxed);
        let was_open = self.opened.swap(0, Relaxed) > 0;
        if was_open {
            self.returned.store(self.now_ms(), Relaxed);
        }
        was_open
    }

    fn now_ms(&self) -> u64 {
        self.born.elapsed().as_millis() as u64 + 1
    }
}
