//! How far a run has got.

use std::ops::ControlFlow;
use std::time::Duration;

/// Told a few times per second; may end the run early.
///
/// Every `FnMut(Status) -> ControlFlow<()>` is one.
pub trait Progress {
    /// Breaking ends the run; what was measured so far is reported.
    fn update(&mut self, status: Status) -> ControlFlow<()>;
}

impl<F: FnMut(Status) -> ControlFlow<()>> Progress for F {
    fn update(&mut self, status: Status) -> ControlFlow<()> {
        self(status)
    }
}

/// What can be said while the run goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// Which part is under way.
    pub phase: Phase,
    /// Since the first call.
    pub elapsed: Duration,
    /// The part of this phase that is done, 0 to 1.
    pub done: f64,
    /// Measured calls settled.
    pub requests: u64,
    /// Measured calls that failed.
    pub errors: u64,
    /// Calls settled per second since the last update, warm-up included.
    pub per_second: f64,
}

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is counted yet.
    WarmUp,
    /// Calls are measured.
    Measured,
}
