//! The times at which the calls of an open loop are due.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1};

/// The due times of calls. They are computed one at a time, so the memory is bounded however far the server
/// falls behind.
#[derive(Debug)]
pub(crate) struct Schedule {
    start_ns: u64,
    spacing_ns: f64,
    /// The source of random spacings; `None` if the spacing is even.
    random: Option<Xoshiro256PlusPlus>,
    /// Nanoseconds since the start. A float, so that fractions of a nanosecond do not add up to a drift.
    next_ns: f64,
}

impl Schedule {
    pub(crate) fn new(start_ns: u64, per_second: f64, poisson: bool, seed: u64) -> Self {
        // A different random sequence from that of the keys.
        let random = poisson.then(|| Xoshiro256PlusPlus::seed_from_u64(!seed));
        Self { start_ns, spacing_ns: 1e9 / per_second, random, next_ns: 0.0 }
    }

    /// Returns when the next call is due.
    pub(crate) fn peek_ns(&self) -> u64 {
        self.start_ns + self.next_ns as u64
    }

    /// Advances to the call after the next one.
    pub(crate) fn advance(&mut self) {
        self.next_ns += match &mut self.random {
            Some(random) => self.spacing_ns * <Exp1 as Distribution<f64>>::sample(&Exp1, random),
            None => self.spacing_ns,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    fn gaps(poisson: bool) -> Vec<f64> {
        let mut schedule = Schedule::new(5, 30_000.0, poisson, 1);
        let mut last = schedule.peek_ns();
        assert_eq!(last, 5);
        let gap = |_| {
            schedule.advance();
            let gap = schedule.peek_ns() - last;
            last = schedule.peek_ns();
            gap as f64
        };
        (0..300_000).map(gap).collect()
    }

    #[test]
    fn even_spacing_does_not_drift() {
        let total: f64 = gaps(false).iter().sum();
        assert!((total - 1e10).abs() < 10.0, "{total}");
    }

    #[test]
    fn poisson_spacing_has_the_mean_and_the_spread_of_an_exponential() {
        let gaps = gaps(true);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 33_333.3 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
    }
}
