//! Estimates how many units a key has used lately, in eight bytes.

use crate::Micros;

/// The time over which units are counted. With steady demand, the estimate is the number of units used in this time.
pub const MEMORY_US: u64 = 1 << 20;

/// Units are counted in sixteenths.
const SCALE: u64 = 16;

/// A decaying count of units: a unit counts fully when it is used, and less the longer ago that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The decayed count, in sixteenths of a unit.
    level: u32,
    /// When the count was last updated, in units of 1,024 us; wraps around after 50 days.
    seen: u32,
}

impl Demand {
    /// Counts `units` used at `now`.
    #[inline]
    pub fn add(&mut self, units: u64, now: Micros) {
        let tick = tick(now);
        if tick != self.seen {
            self.level = self.faded(tick);
            self.seen = tick;
        }
        let added = units.saturating_mul(SCALE).min(u64::from(u32::MAX)) as u32;
        self.level = self.level.saturating_add(added);
    }

    /// Returns the units used in about the last [`MEMORY_US`] before `now`.
    pub fn units(&self, now: Micros) -> u64 {
        u64::from(self.faded(tick(now))) / SCALE
    }

    /// Returns the count at `tick`. It falls by 1/1024 of itself per tick: linearly within half of [`MEMORY_US`], and
    /// halved for each earlier half.
    fn faded(&self, tick: u32) -> u32 {
        const HALF: u32 = (MEMORY_US as u32 >> 10) / 2;
        let passed = tick.wrapping_sub(self.seen);
        // A clock that stepped back appears as a very long time.
        let halves = passed / HALF;
        if halves >= u32::BITS {
            return 0;
        }
        let level = u64::from(self.level >> halves);
        (level - level * u64::from(passed % HALF) / (2 * u64::from(HALF))) as u32
    }
}

fn tick(now: Micros) -> u32 {
    (now.0 >> 10) as u32
}
