//! Bursty traffic, the same on every machine for the same seed.

use tidegate::Micros;

/// Seconds in a minute, the window of the limit.
pub(super) const WINDOW_US: u64 = 60_000_000;
pub(super) const LIMIT: u64 = 100;

/// A client is followed for this long, at a random time of the day.
const FOLLOWED_US: f64 = 2.0 * 3_600e6;
const DAY_US: f64 = 86_400e6;
/// A burst lasts a third of a window on average.
const BURST_US: f64 = 20e6;
/// By how much the busiest time of the day is busier than the average.
const DAILY_SWING: f64 = 0.6;

/// How a population of clients behaves.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    pub(super) name: &'static str,
    /// Requests per window of the median client, on average over the day.
    pub(super) median_rate: f64,
    /// Of the logarithm of the rates: 0 makes all clients alike.
    pub(super) sigma: f64,
    /// How much faster than on average a client sends in a burst; 1 is a Poisson stream.
    pub(super) burstiness: f64,
}

impl Traffic {
    /// A client's requests, in order.
    pub(super) fn client(&self, seed: u64) -> Client {
        let mut random = fastrand::Rng::with_seed(seed);
        let rate = self.median_rate * (self.sigma * normal(&mut random)).exp() / WINDOW_US as f64;
        // Some day in 2024, and any time of it.
        let start = 1_710_000_000e6 + random.f64() * DAY_US;
        Client {
            peak_per_us: rate * self.burstiness * (1.0 + DAILY_SWING),
            pause_us: BURST_US * (self.burstiness - 1.0),
            at_us: start,
            burst_end_us: start,
            end_us: start + FOLLOWED_US,
            random,
        }
    }
}

/// Sends at random moments while a burst lasts, then pauses for a random time. The hour of the day
/// thins the requests out.
pub(super) struct Client {
    random: fastrand::Rng,
    peak_per_us: f64,
    /// Between bursts, on average.
    pause_us: f64,
    at_us: f64,
    burst_end_us: f64,
    end_us: f64,
}

impl Iterator for Client {
    type Item = Micros;

    fn next(&mut self) -> Option<Micros> {
        loop {
            let step_us = exponential(&mut self.random, 1.0 / self.peak_per_us);
            if self.at_us + step_us < self.burst_end_us {
                self.at_us += step_us;
                let hour = (self.at_us / DAY_US * std::f64::consts::TAU).sin();
                if self.random.f64() * (1.0 + DAILY_SWING) < 1.0 + DAILY_SWING * hour {
                    return Some(Micros(self.at_us as u64));
                }
            } else {
                let pause_us = exponential(&mut self.random, self.pause_us);
                self.at_us = self.burst_end_us + pause_us;
                self.burst_end_us = self.at_us + exponential(&mut self.random, BURST_US);
            }
            if self.at_us > self.end_us {
                return None;
            }
        }
    }
}

fn exponential(random: &mut fastrand::Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}

/// By Box and Muller.
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::Traffic;

    const ALIKE: Traffic = Traffic { name: "alike", median_rate: 30.0, sigma: 0.0, burstiness: 4.0 };

    #[test]
    fn requests_are_in_order_and_the_same_for_the_same_seed() {
        let times: Vec<_> = ALIKE.client(7).collect();
        assert!(times.is_sorted() && !times.is_empty());
        assert_eq!(times, ALIKE.client(7).collect::<Vec<_>>());
    }

    #[test]
    fn bursts_do_not_change_how_much_is_sent() {
        for burstiness in [1.0, 4.0, 16.0] {
            let traffic = Traffic { burstiness, ..ALIKE };
            let sent: usize = (0..2_000).map(|seed| traffic.client(seed).count()).sum();
            let expected = 2_000.0 * 30.0 * 120.0;
            let ratio = sent as f64 / expected;
            assert!((0.9..1.1).contains(&ratio), "burstiness {burstiness}: {ratio}");
        }
    }
}
