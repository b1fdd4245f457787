//! Keeps traffic from a server that fails.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quanta::Instant;

/// Failures in a row after which the breaker opens.
const MAX_FAILURES: u32 = 3;

/// For how long a growing share of requests is let through after a server has come back.
const RAMP: Duration = Duration::from_millis(500);

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// Everything.
    Closed,
    /// Nothing: the server has failed.
    Open,
    /// A growing share: the server has just come back.
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

/// Counts failures in a row and keeps traffic from a server that fails.
#[derive(Debug)]
pub(super) struct Breaker {
    born: Instant,
    failures: AtomicU32,
    /// Milliseconds since `born` at which it opened, plus one; 0 while it is not open.
    opened: AtomicU64,
    /// Milliseconds since `born` at which it opened for the first time after it was closed for good.
    failing: AtomicU64,
    /// Milliseconds since `born` at which the server came back, plus one; 0 if it never went.
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

    /// Returns how long the server has been failing. A return that did not last does not interrupt that.
    pub(super) fn open_for(&self) -> Option<Duration> {
        let failing = self.failing.load(Relaxed);
        (self.circuit() != Circuit::Closed)
            .then(|| Duration::from_millis(self.now_ms().saturating_sub(failing)))
    }

    /// Returns whether one more request may go to the server.
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

    /// Ends a row of failures.
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
        // Before it opens, because `open_for` may be called as soon as it is open.
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
