//! The background threads of a limiter: one sweeps expired keys, adjusts the clock and reloads changed rules; the other
//! writes snapshots, which may take seconds.

use std::io;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::limiter::Inner;

/// One page of every shard is swept per tick, so ten million keys take half a minute.
const TICK: Duration = Duration::from_millis(100);
/// How often rule files are polled, in ticks. A change must be stable for two polls, so it takes effect within half a
/// second.
const TICKS_PER_LOOK: u64 = 2;
const TICKS_PER_DISCIPLINE: u64 = 10;

/// Starts the threads. They end when the limiter is dropped.
pub(crate) fn start(limiter: &Weak<Inner>, watch: bool, snapshot_every: Option<Duration>) -> io::Result<()> {
    each_tick("tidegate-keeper", limiter, move |limiter, tick| {
        limiter.backend.memory.sweep_step();
        limiter.reservations.sweep(limiter.backend.memory.now());
        if tick.is_multiple_of(TICKS_PER_DISCIPLINE)
            && let Some(clock) = &limiter.system_clock
        {
            clock.discipline();
        }
        if watch && tick.is_multiple_of(TICKS_PER_LOOK) && limiter.origins.files_changed() {
            // Errors are logged, and kept for callers that ask for them.
            let _ = limiter.reload();
        }
    })?;
    let Some(every) = snapshot_every else { return Ok(()) };
    let ticks = (every.as_millis() / TICK.as_millis()).max(1) as u64;
    each_tick("tidegate-snapshots", limiter, move |limiter, tick| {
        if tick.is_multiple_of(ticks)
            && !limiter.closed.load(Ordering::Acquire)
            && let Some(snapshots) = &limiter.snapshots
            && let Err(error) = snapshots.write(&limiter.backend.memory)
        {
            tracing::error!(%error, "the snapshot was not written");
        }
    })
}

fn each_tick(
    name: &str,
    limiter: &Weak<Inner>,
    work: impl Fn(&Inner, u64) + Send + 'static,
) -> io::Result<()> {
    let limiter = Weak::clone(limiter);
    let keep = move || {
        for tick in 1_u64.. {
            thread::sleep(TICK);
            let Some(limiter) = limiter.upgrade() else { return };
            work(&limiter, tick);
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(keep).map(drop)
}
