//! A timer with a finer resolution than the milliseconds of a poll timeout.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Wakes the poll. Unlike the timeout of a poll it is not subject to timer slack.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
}

impl Timer {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { fd })
    }

    /// Wakes the poll once, `wait_ns` nanoseconds from now. Replaces the time set before.
    ///
    /// The expiry need not be read: polling is edge-triggered, and setting the timer clears it.
    pub(crate) fn wake_in_ns(&self, wait_ns: u64) -> io::Result<()> {
        let value = Timespec {
            tv_sec: (wait_ns / 1_000_000_000).cast_signed(),
            // 0 would disarm the timer.
            tv_nsec: (wait_ns % 1_000_000_000).max(1).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}
