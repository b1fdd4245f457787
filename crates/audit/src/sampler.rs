//! Which denials are worth a record: so many each second, and the others only counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Micros;

/// Denials per second that are recorded unless a setting says otherwise.
pub const USUAL_PER_SECOND: u32 = 100;

/// A time further back than this is a clock that was set, not two callers that met.
const PAST_SECONDS: u32 = 2;

/// Lets a bounded number through each second. It takes no lock and no memory, so a flood of denials
/// costs an atomic addition each.
#[derive(Debug)]
pub struct Sampler {
    per_second: u32,
    /// The second (its low 32 bits) in the upper half, how many it let through in the lower.
    taken: AtomicU64,
    /// Since the last that was let through.
    skipped: AtomicU64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new(USUAL_PER_SECOND)
    }
}

impl Sampler {
    /// Lets `per_second` through; with 0 none, and none is counted.
    pub const fn new(per_second: u32) -> Self {
        Self { per_second, taken: AtomicU64::new(0), skipped: AtomicU64::new(0) }
    }

    /// Whether a denial at `now` is worth a record; if so, how many before it were not, which goes into
    /// [`Denial::unsampled`](crate::Denial::unsampled).
    ///
    /// ```
    /// use tidegate_audit::Sampler;
    /// use tidegate_core::Micros;
    ///
    /// let sampler = Sampler::new(1);
    /// assert_eq!(sampler.sample(Micros(1_000_000)), Some(0));
    /// assert_eq!(sampler.sample(Micros(1_500_000)), None);
    /// assert_eq!(sampler.sample(Micros(2_000_000)), Some(1));
    /// ```
    #[inline]
    pub fn sample(&self, now: Micros) -> Option<u64> {
        if self.per_second == 0 {
            return None;
        }
        let second = (now.0 / 1_000_000) as u32;
        let mut held = self.taken.load(Ordering::Relaxed);
        loop {
            let (of, taken) = ((held >> 32) as u32, held as u32);
            // Of two callers at the turn of a second the later one's second counts for both.
            let same = of.wrapping_sub(second) <= PAST_SECONDS;
            if same && taken >= self.per_second {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let next = if same { held + 1 } else { u64::from(second) << 32 | 1 };
            match self.taken.compare_exchange_weak(held, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.skipped.swap(0, Ordering::Relaxed)),
                Err(now_held) => held = now_held,
            }
        }
    }
}
