//! A wall clock that never runs backwards.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::{Clock, Micros};

use crate::sync::{AtomicU64, Ordering};

/// A clock that reads wall time once, advances by a monotonic clock, and is slewed towards the wall clock. If the two
/// drift apart, this clock runs a little faster or slower until they agree, so that windows stay aligned with the
/// calendar and time never runs backwards.
///
/// Time is a linear function of the processor's tick counter. [`SystemClock::discipline`] starts a new line at the
/// point that the old one has reached.
pub struct SystemClock {
    ticks: quanta::Clock,
    /// Microseconds per tick when not slewed, scaled by 2^[`RATE_BITS`].
    rate: u64,
    /// Two lines, one in use and one to write the next into. Even and odd epochs alternate.
    lines: [Line; 2],
    epoch: AtomicU64,
}

#[derive(Default)]
struct Line {
    /// The tick at which the line begins.
    from: AtomicU64,
    /// The time at that tick, in microseconds.
    wall_us: AtomicU64,
    /// Microseconds per tick, scaled by 2^[`RATE_BITS`].
    rate: AtomicU64,
}

/// Fractional bits of a rate. A tick may be a third of a nanosecond; with these bits its length is exact to one in
/// 10^10.
const RATE_BITS: u32 = 48;
/// The largest slew, in parts per million. At 5 %, a minute of drift is corrected within 20 minutes.
const MAX_SLEW_PPM: i64 = 50_000;
/// If the wall clock is this far ahead, it was set or the machine was suspended: follow at once.
const STEP_FORWARD_US: i64 = 1_000_000;
/// The time over which observed drift is corrected.
const SLEW_OVER_US: i64 = 10_000_000;

impl SystemClock {
    /// Creates a clock, which reads the wall clock once.
    pub fn new() -> Self {
        let ticks = quanta::Clock::new();
        let ns_per_2_32_ticks = u128::from(ticks.delta_as_nanos(0, 1 << 32));
        let rate = ((ns_per_2_32_ticks << (RATE_BITS - 32)) / 1_000) as u64;
        let from = ticks.raw();
        let clock = Self { ticks, rate, lines: Default::default(), epoch: AtomicU64::new(0) };
        clock.lines[0].set(from, wall_us(), rate);
        clock
    }

    /// Compares with the wall clock and sets the slew. Call it about once a second.
    pub fn discipline(&self) {
        self.follow(self.ticks.raw(), wall_us());
    }

    /// Starts a new line at `tick` towards a wall clock that shows `wall_us`.
    fn follow(&self, tick: u64, wall_us: u64) {
        let now_us = self.at(tick);
        let drift_us = wall_us.cast_signed() - now_us.cast_signed();
        let (start_us, slew_ppm) = if drift_us > STEP_FORWARD_US {
            (wall_us, 0)
        } else {
            let wanted_ppm = drift_us.saturating_mul(1_000_000) / SLEW_OVER_US;
            (now_us, wanted_ppm.clamp(-MAX_SLEW_PPM, MAX_SLEW_PPM))
        };
        let millionths = u128::from(1_000_000_u64.saturating_add_signed(slew_ppm));
        let rate = (u128::from(self.rate) * millionths / 1_000_000) as u64;
        let epoch = self.epoch.load(Ordering::Acquire);
        self.lines[((epoch + 1) & 1) as usize].set(tick, start_us, rate);
        self.epoch.store(epoch + 1, Ordering::Release);
    }

    /// Returns the time at a tick.
    ///
    /// The line that is read is not the one being written unless two new lines began meanwhile; then the epoch has
    /// changed and it is read again.
    #[inline]
    fn at(&self, tick: u64) -> u64 {
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            let line = &self.lines[(epoch & 1) as usize];
            let from = line.from.load(Ordering::Acquire);
            let wall_us = line.wall_us.load(Ordering::Acquire);
            let rate = line.rate.load(Ordering::Acquire);
            if self.epoch.load(Ordering::Relaxed) == epoch {
                let since = u128::from(tick.saturating_sub(from)) * u128::from(rate);
                return wall_us + (since >> RATE_BITS) as u64;
            }
        }
    }
}

impl Line {
    fn set(&self, from: u64, wall_us: u64, rate: u64) {
        self.from.store(from, Ordering::Relaxed);
        self.wall_us.store(wall_us, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Micros {
        Micros(self.at(self.ticks.raw()))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where wall time enters")]
fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a clock whose ticks are microseconds, from 0.
    fn clock_at(wall_us: u64) -> SystemClock {
        let mut clock = SystemClock::new();
        clock.rate = 1 << RATE_BITS;
        clock.lines[0].set(0, wall_us, clock.rate);
        clock
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn shows_wall_time_at_start() {
        let before = wall_us();
        let shown = SystemClock::new().now().0;
        assert!((before..before + 60_000_000).contains(&shown), "{shown} is not near {before}");
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn drift_is_slewed_away_without_a_step() {
        for drift_us in [-900_000_i64, -3_000, 3_000, 900_000] {
            let clock = clock_at(1_000_000_000);
            let (mut elapsed_us, mut last_us) = (0_u64, clock.at(0));
            for _ in 0..200 {
                let wall_us = (1_000_000_000 + elapsed_us).saturating_add_signed(drift_us);
                clock.follow(elapsed_us, wall_us);
                assert_eq!(clock.at(elapsed_us), last_us, "a new line begins where the old one is");
                elapsed_us += 1_000_000;
                let now_us = clock.at(elapsed_us);
                assert!(now_us - last_us >= 940_000, "runs at least nearly as fast as time");
                last_us = now_us;
            }
            let wall_us = (1_000_000_000 + elapsed_us).saturating_add_signed(drift_us);
            assert!(last_us.abs_diff(wall_us) < 1_000, "{drift_us} became {last_us} - {wall_us}");
        }
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn a_wall_clock_set_back_never_moves_time_back() {
        let clock = clock_at(10_000_000_000);
        clock.follow(1_000_000, 5_000_000_000);
        assert_eq!(clock.at(1_000_000), 10_001_000_000);
        assert!(clock.at(2_000_000).abs_diff(10_001_950_000) < 2, "5 % slower until the wall has caught up");
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn a_wall_clock_set_forward_is_followed_at_once() {
        let clock = clock_at(10_000_000_000);
        clock.follow(1_000_000, 20_000_000_000);
        assert_eq!(clock.at(1_000_000), 20_000_000_000);
    }

    /// Readers race with `discipline`: whatever the interleaving, no line is read half-written.
    #[cfg(feature = "shuttle")]
    #[test]
    fn readers_never_see_half_a_line() {
        use std::sync::Arc;
        shuttle::check_random(
            || {
                let clock = Arc::new(clock_at(1_000));
                let writer = Arc::clone(&clock);
                let following = shuttle::thread::spawn(move || {
                    for round in 1..4_u64 {
                        writer.follow(round * 10, 1_000_000_000 * round);
                    }
                });
                let shown = clock.at(30);
                let lines = [1_030, 1_000_000_020, 2_000_000_010, 3_000_000_000];
                assert!(lines.contains(&shown), "{shown} lies on no line");
                following.join().expect("the writer finishes");
            },
            5_000,
        );
    }
}
