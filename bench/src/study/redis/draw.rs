//! Draws the key and the time of the next call.

use std::time::Duration;

use quanta::Instant;
use tidegate_load::payload;

use crate::study::bed::USERS;

/// Draws keys with the same distribution as the load generator.
pub(super) struct Zipf {
    random: fastrand::Rng,
    /// The cumulative weight of each key.
    weights: Vec<f64>,
    key: String,
}

impl Zipf {
    pub(super) fn new() -> Self {
        let mut total = 0.0;
        let weigh = |rank: u64| {
            total += 1.0 / rank as f64;
            total
        };
        Self {
            random: fastrand::Rng::with_seed(1),
            weights: (1..=USERS).map(weigh).collect(),
            key: String::new(),
        }
    }

    pub(super) fn next(&mut self) -> &str {
        let total = self.weights.last().copied().unwrap_or_default();
        let drawn = self.random.f64() * total;
        let key = self.weights.partition_point(|weight| *weight <= drawn).min(self.weights.len() - 1);
        payload::write_key(key as u64, &mut self.key);
        &self.key
    }
}

/// Draws the times of calls, as from independent clients.
pub(super) struct Schedule {
    random: fastrand::Rng,
    spacing_s: f64,
    next_s: f64,
}

impl Schedule {
    pub(super) fn new(per_second: f64) -> Self {
        Self { random: fastrand::Rng::with_seed(2), spacing_s: 1.0 / per_second, next_s: 0.0 }
    }

    pub(super) fn peek(&self, started: Instant) -> Option<Instant> {
        started.checked_add(Duration::from_secs_f64(self.next_s))
    }

    pub(super) fn advance(&mut self) {
        self.next_s -= self.spacing_s * (1.0 - self.random.f64()).ln();
    }
}
