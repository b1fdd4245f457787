//! The signals of the operating system.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the service handles.
pub struct Signals {
    /// SIGTERM: stop.
    pub terminate: Signal,
    /// SIGINT: stop.
    pub interrupt: Signal,
    /// SIGHUP: reload the rules.
    pub hang_up: Signal,
}

impl Signals {
    /// Handles the signals from now on. Needs a runtime.
    ///
    /// # Errors
    /// If the system does not permit it.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to stop.
    pub async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
