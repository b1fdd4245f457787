//! Progress reports of a run.

use std::ops::ControlFlow;
use std::time::Duration;

/// A callback that is called a few times per second, and may end the run early.
///
/// Implemented for every `FnMut(Status) -> ControlFlow<()>`.
pub trait Progress {
    /// Called with the current status. `ControlFlow::Break` ends the run; what was measured so far is
    /// reported.
    fn update(&mut self, status: Status) -> ControlFlow<()>;
}

impl<F: FnMut(Status) -> ControlFlow<()>> Progress for F {
    fn update(&mut self, status: Status) -> ControlFlow<()> {
        self(status)
    }
}

/// The status of a run in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// The current phase.
    pub phase: Phase,
    /// The time since the first call.
    pub elapsed: Duration,
    /// The share of this phase that is done, from 0 to 1.
    pub done: f64,
    /// The number of measured calls that are finished.
    pub requests: u64,
    /// The number of measured calls that failed.
    pub errors: u64,
    /// Calls finished per second since the last update, including the warm-up.
    pub per_second: f64,
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Calls are sent but not counted.
    WarmUp,
    /// Calls are measured.
    Measured,
}
