//! Wall time that never runs backwards.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::{Clock, Micros};

use crate::sync::{AtomicI64, AtomicU64, Ordering};

/// Wall time read once at start plus a monotonic clock, and slewed after the wall clock from then
/// on: where the two drift apart, this clock runs a little faster or slower until they agree, so
/// that windows stay aligned with the calendar and nothing runs backwards.
///
/// Time follows a line, `wall + elapsed x (1 + slew)`. [`SystemClock::discipline`] starts a new line
/// where the old one has got to.
pub struct SystemClock {
    monotonic: quanta::Clock,
    /// The monotonic clock's reading at start, in its own units.
    origin: u64,
    /// Two lines, one in use and one to write the next into. Even and odd epochs take turns.
    lines: [Line; 2],
    epoch: AtomicU64,
}

#[derive(Default)]
struct Line {
    /// Where the line begins, in microseconds of the monotonic clock.
    from_us: AtomicU64,
    /// The time there.
    wall_us: AtomicU64,
    /// How much faster than the monotonic clock it runs, in parts per million.
    slew_ppm: AtomicI64,
}

/// A correction of at most 5 %: a minute of drift is gone after 20 minutes.
const MAX_SLEW_PPM: i64 = 50_000;
/// A wall clock this far ahead was set, or the machine slept: follow at once.
const STEP_FORWARD_US: u64 = 1_000_000;
/// The drift found is spread over this time.
const SLEW_OVER_US: i64 = 10_000_000;

impl SystemClock {
    /// Reads the wall clock once.
    pub fn new() -> Self {
        let monotonic = quanta::Clock::new();
        let origin = monotonic.raw();
        let clock = Self { monotonic, origin, lines: Default::default(), epoch: AtomicU64::new(0) };
        clock.lines[0].wall_us.store(wall_us(), Ordering::Relaxed);
        clock
    }

    /// Compares with the wall clock and sets the slew; to be called every second or so.
    pub fn discipline(&self) {
        self.follow(self.elapsed_us(), wall_us());
    }

    #[inline]
    fn elapsed_us(&self) -> u64 {
        self.monotonic.delta_as_nanos(self.origin, self.monotonic.raw()) / 1_000
    }

    /// Starts a new line at `elapsed_us` towards a wall clock that shows `wall_us`.
    fn follow(&self, elapsed_us: u64, wall_us: u64) {
        let now_us = self.at(elapsed_us);
        let drift_us = wall_us.cast_signed() - now_us.cast_signed();
        let (start_us, slew_ppm) = if drift_us > STEP_FORWARD_US.cast_signed() {
            (wall_us, 0)
        } else {
            let wanted_ppm = drift_us.saturating_mul(1_000_000) / SLEW_OVER_US;
            (now_us, wanted_ppm.clamp(-MAX_SLEW_PPM, MAX_SLEW_PPM))
        };
        let epoch = self.epoch.load(Ordering::Acquire);
        let next = &self.lines[((epoch + 1) & 1) as usize];
        next.from_us.store(elapsed_us, Ordering::Relaxed);
        next.wall_us.store(start_us, Ordering::Relaxed);
        next.slew_ppm.store(slew_ppm, Ordering::Relaxed);
        self.epoch.store(epoch + 1, Ordering::Release);
    }

    /// The time `elapsed_us` after the origin.
    ///
    /// The line read is not the one being written unless two new ones began meanwhile, and then the
    /// epoch has moved and it is read again.
    #[inline]
    fn at(&self, elapsed_us: u64) -> u64 {
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            let line = &self.lines[(epoch & 1) as usize];
            let from_us = line.from_us.load(Ordering::Acquire);
            let wall_us = line.wall_us.load(Ordering::Acquire);
            let slew_ppm = line.slew_ppm.load(Ordering::Acquire);
            if self.epoch.load(Ordering::Relaxed) == epoch {
                let since_us = elapsed_us.saturating_sub(from_us);
                let slewed_us = match slew_ppm {
                    0 => 0,
                    ppm => since_us.cast_signed().saturating_mul(ppm) / 1_000_000,
                };
                return (wall_us + since_us).wrapping_add_signed(slewed_us);
            }
        }
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
        Micros(self.at(self.elapsed_us()))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where wall time enters")]
fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_at(wall_us: u64) -> SystemClock {
        let clock = SystemClock::new();
        clock.lines[0].wall_us.store(wall_us, Ordering::Relaxed);
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
            let (mut elapsed_us, mut last_us) = (0, clock.at(0));
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
        assert_eq!(clock.at(2_000_000), 10_001_950_000, "5 % slower until the wall has caught up");
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn a_wall_clock_set_forward_is_followed_at_once() {
        let clock = clock_at(10_000_000_000);
        clock.follow(1_000_000, 20_000_000_000);
        assert_eq!(clock.at(1_000_000), 20_000_000_000);
    }

    /// Readers race the discipline; whatever the interleaving, no line is read half-written.
    #[cfg(feature = "shuttle")]
    #[test]
    fn readers_never_see_half_a_line() {
        use std::sync::Arc;
        shuttle::check_random(
            || {
                let clock = Arc::new(clock_at(1_000));
                let writer = Arc::clone(&clock);
                let writes = shuttle::thread::spawn(move || {
                    for round in 1..4_u64 {
                        writer.follow(round * 10, 1_000_000_000 * round);
                    }
                });
                let shown = clock.at(30);
                let lines = [1_030, 1_000_000_020, 2_000_000_010, 3_000_000_000];
                assert!(lines.contains(&shown), "{shown} lies on no line");
                writes.join().expect("the writer finishes");
            },
            5_000,
        );
    }
}
