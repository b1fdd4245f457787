//! How many units a key has used lately, in eight bytes.

use crate::Micros;

/// The time over which units are counted: of a steady demand, the estimate is what is used in this time.
pub const MEMORY_US: u64 = 1 << 20;

/// Units are counted in sixteenths.
const SCALE: u64 = 16;

/// A count of units that fades: a unit counts fully when it is used, and less the longer ago that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The faded count, in sixteenths of a unit.
    level: u32,
    /// When it was last updated, in units of 1,024 us; wraps around after 50 days.
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

    /// Returns the count at `tick`. It falls by 1/1024 of itself per tick: linear within half of the memory, and
    /// halved for each half of the memory before that.
    fn faded(&self, tick: u32) -> u32 {
        const HALF: u32 = (MEMORY_US as u32 >> 10) / 2;
        let passed = tick.wrapping_sub(self.seen);
        // A clock that stepped back shows as a very long time.
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
