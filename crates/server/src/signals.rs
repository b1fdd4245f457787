//! What a service is told from outside.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the service knows.
pub struct Signals {
    /// Stop.
    pub terminate: Signal,
    /// Stop, from a terminal.
    pub interrupt: Signal,
    /// Read the rules anew.
    pub hang_up: Signal,
}

impl Signals {
    /// Takes them from here on. Needs a runtime.
    ///
    /// # Errors
    /// If the system does not let it.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Ends when the service is told to stop.
    pub async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
