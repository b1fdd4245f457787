//! Bursty traffic, the same on every machine for the same seed.

use tidegate::Micros;

/// One minute, the window of the limit.
pub(super) const WINDOW_US: u64 = 60_000_000;
pub(super) const LIMIT: u64 = 100;

/// How long a client is simulated, from a random time of the day.
const FOLLOWED_US: f64 = 2.0 * 3_600e6;
const DAY_US: f64 = 86_400e6;
/// The average duration of a burst: a third of a window.
const BURST_US: f64 = 20e6;
/// How much busier the busiest time of the day is than the average.
const DAILY_SWING: f64 = 0.6;

/// The behaviour of a population of clients.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    pub(super) name: &'static str,
    /// Requests per window of the median client, on average over the day.
    pub(super) median_rate: f64,
    /// The standard deviation of the logarithm of the rates; 0 makes all clients alike.
    pub(super) sigma: f64,
    /// The rate of a client in a burst, relative to its average; 1 is a Poisson stream.
    pub(super) burstiness: f64,
}

impl Traffic {
    /// Returns the requests of a client, in order.
    pub(super) fn client(&self, seed: u64) -> Client {
        let mut random = fastrand::Rng::with_seed(seed);
        let rate = self.median_rate * (self.sigma * normal(&mut random)).exp() / WINDOW_US as f64;
        // A random time of a day in 2024.
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

/// A client that sends at random moments during a burst, then pauses for a random time. The time of day reduces the
/// number of requests.
pub(super) struct Client {
    random: fastrand::Rng,
    peak_per_us: f64,
    /// The average pause between bursts.
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

/// Returns a normally distributed number, by the Box-Muller method.
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
