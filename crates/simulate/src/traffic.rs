//! When requests arrive.

use fastrand::Rng;

/// The requests that come to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// As many per second at all times, at random moments.
    Steady {
        /// Requests per second on average.
        per_second: u64,
    },
    /// At random moments, from a rate that is given in thousandths of a request per second.
    Slow {
        /// Thousandths of a request per second.
        per_kilosecond: u64,
    },
    /// Requests in bursts, with nothing in between.
    Bursty {
        /// Requests per burst.
        burst: u64,
        /// Microseconds from one burst to the next.
        every_us: u64,
    },
    /// A rate that rises from nothing to a peak and falls again.
    Diurnal {
        /// Requests per second at the peak.
        peak_per_second: u64,
        /// Microseconds from one peak to the next.
        period_us: u64,
    },
    /// Recorded counts, played again and again.
    Recorded {
        /// Requests in each second.
        per_second: Vec<u64>,
    },
}

impl Traffic {
    /// Returns the microseconds from `at_us` to the next request, or to the next look at the rate if there is no
    /// request until then.
    pub(crate) fn next(&self, at_us: u64, rng: &mut Rng) -> (u64, bool) {
        match self {
            Self::Steady { per_second } => (gap_us(per_second.saturating_mul(1_000), rng), *per_second > 0),
            Self::Slow { per_kilosecond } => (gap_us(*per_kilosecond, rng), *per_kilosecond > 0),
            Self::Bursty { burst, every_us } => {
                // The requests of a burst are 100 us apart.
                let in_burst = (at_us % every_us) / 100;
                if in_burst + 1 < *burst { (100, true) } else { (every_us - at_us % every_us, true) }
            }
            Self::Diurnal { peak_per_second, period_us } => {
                let phase = at_us % period_us;
                let rising = phase.min(period_us - phase);
                thinned(peak_per_second * 1_000, 2 * rising * 1_000 / period_us, rng)
            }
            Self::Recorded { per_second } => {
                let most = per_second.iter().max().copied().unwrap_or(0);
                let second = (at_us / 1_000_000) as usize % per_second.len().max(1);
                let now = per_second.get(second).copied().unwrap_or(0);
                thinned(most * 1_000, now * 1_000 / most.max(1), rng)
            }
        }
    }
}

/// Returns the gap to the next event of the highest rate, and whether it counts: so many of a thousand do.
fn thinned(per_kilosecond: u64, permille: u64, rng: &mut Rng) -> (u64, bool) {
    (gap_us(per_kilosecond, rng), per_kilosecond > 0 && rng.u64(0..1_000) < permille)
}

/// Returns a random gap between requests that come independently of each other.
#[expect(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an exponential"
)]
fn gap_us(per_kilosecond: u64, rng: &mut Rng) -> u64 {
    if per_kilosecond == 0 {
        return 1_000_000;
    }
    let mean_us = 1e9 / per_kilosecond as f64;
    ((-(1.0 - rng.f64()).ln() * mean_us) as u64).max(1)
}
