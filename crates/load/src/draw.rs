//! The random keys of a run.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::plan::Keys;

/// Generates the keys of a run.
#[derive(Debug)]
pub(crate) struct Draw {
    random: Xoshiro256PlusPlus,
    law: Law,
}

#[derive(Debug)]
enum Law {
    Hot,
    Uniform { n: u64 },
    // Sampled by rejection-inversion, which needs no table. A table of millions of keys would evict the
    // server's data from the CPU cache.
    Zipf { n: u64, law: Zipf<f64> },
    Sequential { n: u64, next: u64 },
}

impl Draw {
    /// Creates a generator. The keys must come from a validated plan.
    pub(crate) fn new(keys: Keys, seed: u64) -> Self {
        let law = match keys {
            Keys::Hot => Law::Hot,
            Keys::Uniform(n) => Law::Uniform { n },
            Keys::Zipf { n, exponent } => match Zipf::new(n as f64, exponent) {
                Ok(law) => Law::Zipf { n, law },
                Err(_) => Law::Uniform { n: n.max(1) },
            },
            Keys::Sequential(n) => Law::Sequential { n, next: 0 },
        };
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), law }
    }

    pub(crate) fn key(&mut self) -> u64 {
        match &mut self.law {
            Law::Hot => 0,
            Law::Uniform { n } => self.random.random_range(0..*n),
            // The sample is a rank from 1. The bound guards against rounding at the upper end.
            Law::Zipf { n, law } => (law.sample(&mut self.random) as u64).clamp(1, *n) - 1,
            Law::Sequential { n, next } => {
                let key = *next;
                *next = (key + 1) % *n;
                key
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;
    use crate::plan::Keys;

    fn counts(keys: Keys, n: usize, draws: usize) -> Vec<f64> {
        let mut draw = Draw::new(keys, 7);
        let mut counts = vec![0.0; n];
        for _ in 0..draws {
            counts[draw.key() as usize] += 1.0;
        }
        counts
    }

    #[test]
    fn zipf_draws_each_key_as_often_as_its_weight_says() {
        for exponent in [0.5, 1.0, 1.3] {
            let (n, draws) = (100, 1_000_000);
            let weights: Vec<f64> = (1..=n).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            let counts = counts(Keys::Zipf { n: 100, exponent }, 100, draws);
            for (count, weight) in counts.iter().zip(&weights) {
                let expected = draws as f64 * weight / total;
                // Six standard deviations.
                assert!((count - expected).abs() < 6.0 * expected.sqrt(), "{count} for {expected}");
            }
        }
    }

    #[test]
    fn uniform_draws_every_key_equally_often() {
        for count in counts(Keys::Uniform(10), 10, 1_000_000) {
            assert!((count - 100_000.0).abs() < 6.0 * 316.0, "{count}");
        }
    }

    #[test]
    fn sequential_goes_round() {
        assert_eq!(counts(Keys::Sequential(5), 5, 10), [2.0; 5]);
        let mut draw = Draw::new(Keys::Sequential(3), 0);
        assert_eq!([0; 4].map(|_| draw.key()), [0, 1, 2, 0]);
    }

    #[test]
    fn the_same_seed_draws_the_same_keys() {
        let keys = |seed| {
            let mut draw = Draw::new(Keys::Zipf { n: 1000, exponent: 1.0 }, seed);
            [0; 50].map(|_| draw.key())
        };
        assert_eq!(keys(1), keys(1));
        assert_ne!(keys(1), keys(2));
    }
}
