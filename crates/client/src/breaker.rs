//! The circuit breaker: decides when to retry a service that has failed.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::ClientError;

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Closed while the service responds. After a failure nothing is sent for a random time; then a single request probes
/// whether the service is available again. The upper bound of the random time doubles with each failure.
#[derive(Default)]
pub(crate) struct Breaker(State);

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Closed,
    Open {
        until: Instant,
        backoff: Duration,
    },
    Probing {
        backoff: Duration,
    },
}

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Yes, like any other request.
    Together,
    /// Yes, as the only request, to probe whether the service is available again.
    Alone,
    /// No.
    Not,
}

impl Breaker {
    pub(crate) fn pass(&mut self, now: Instant) -> Pass {
        match self.0 {
            State::Closed => Pass::Together,
            State::Open { until, backoff } if now >= until => {
                self.0 = State::Probing { backoff };
                Pass::Alone
            }
            State::Open { .. } | State::Probing { .. } => Pass::Not,
        }
    }

    /// Records that a response arrived, whatever its status.
    pub(crate) fn responded(&mut self) {
        // A response to a request that was sent before the failure does not show that the service is available.
        if matches!(self.0, State::Probing { .. }) {
            self.0 = State::Closed;
            tracing::info!("the rate limit service responds again");
        }
    }

    pub(crate) fn failed(&mut self, now: Instant, why: &ClientError) {
        let backoff = match self.0 {
            State::Closed => FIRST_BACKOFF,
            State::Probing { backoff } => (backoff * 2).min(LONGEST_BACKOFF),
            State::Open { .. } => return,
        };
        if matches!(self.0, State::Closed) {
            tracing::warn!(%why, "the rate limit service does not respond; the fallback decides until it does");
        }
        let wait_us = fastrand::u64(0..=backoff.as_micros() as u64);
        self.0 = State::Open { until: now + Duration::from_micros(wait_us), backoff };
    }

    /// Records that the probe was dropped without a result. The next request is the probe.
    pub(crate) fn gave_up(&mut self, now: Instant) {
        if let State::Probing { backoff } = self.0 {
            self.0 = State::Open { until: now, backoff };
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.0, State::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_each_failure_one_alone_asks_within_a_doubled_time() {
        let mut breaker = Breaker::default();
        let mut now = Instant::now();
        assert_eq!(breaker.pass(now), Pass::Together);
        for most_ms in [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            breaker.failed(now, &ClientError::Timeout(LONGEST_BACKOFF));
            now += Duration::from_millis(most_ms);
            assert_eq!((breaker.pass(now), breaker.pass(now)), (Pass::Alone, Pass::Not));
        }
        breaker.gave_up(now);
        assert_eq!(breaker.pass(now), Pass::Alone);
        breaker.responded();
        assert_eq!(breaker.pass(now), Pass::Together);
    }
}
