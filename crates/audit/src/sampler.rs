//! Selects the denials to record: a bounded number each second. The others are only counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Micros;

/// The default number of denials recorded per second.
pub const DEFAULT_PER_SECOND: u32 = 100;

/// A time further in the past than this means that the clock was set back, not that two callers raced.
const PAST_SECONDS: u32 = 2;

/// Selects a bounded number of denials each second. It takes no lock and allocates no memory, so each denial
/// of a flood costs one atomic addition.
#[derive(Debug)]
pub struct Sampler {
    per_second: u32,
    /// The current second (its low 32 bits) in the upper half, the number selected in it in the lower half.
    taken: AtomicU64,
    /// The number of denials skipped since the last one that was selected.
    skipped: AtomicU64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new(DEFAULT_PER_SECOND)
    }
}

impl Sampler {
    /// Creates a sampler that selects `per_second` denials each second. With 0 it selects none, and counts
    /// none.
    pub const fn new(per_second: u32) -> Self {
        Self { per_second, taken: AtomicU64::new(0), skipped: AtomicU64::new(0) }
    }

    /// Decides whether a denial at `now` is recorded. If so, returns the number of denials skipped before it,
    /// which goes into [`Denial::unsampled`](crate::Denial::unsampled); if not, returns `None`.
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
            // If two callers race at the turn of a second, the later second counts for both.
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
