//! A timer finer than the millisecond that a poll can wait for.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Wakes the poll. Unlike a poll's own timeout it is not subject to timer slack.
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

    /// Wakes the poll once, this many nanoseconds from now, instead of at the time set before.
    ///
    /// The expiry need not be read: polling is edge-triggered, and setting the timer clears it.
    pub(crate) fn wake_in_ns(&self, wait_ns: u64) -> io::Result<()> {
        let value = Timespec {
            tv_sec: (wait_ns / 1_000_000_000).cast_signed(),
            // 0 would disarm it.
            tv_nsec: (wait_ns % 1_000_000_000).max(1).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}
