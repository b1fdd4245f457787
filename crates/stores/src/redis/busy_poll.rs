//! Polls for a result instead of sleeping, as long as that pays off.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use quanta::Instant;
use tokio::task::yield_now;

/// Waits for repeated results of one kind.
///
/// A sleeping thread has to be woken by another core, which takes about as long as a reply of Redis. A polling thread
/// uses its whole core. So it polls only if recent results mostly arrived in time.
pub(super) struct BusyPoll {
    longest: Duration,
    /// Incremented by one for every result that arrived in time, and decremented by two for every other.
    score: u8,
}

impl BusyPoll {
    /// The lowest score at which it polls: two of three results arrive in time.
    const ENOUGH: u8 = 4;
    const MAX: u8 = 8;

    /// Creates a waiter that polls for at most `longest` each time; zero never polls.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, score: Self::ENOUGH }
    }

    /// Waits for a result, and polls first if that has paid off lately.
    pub(super) async fn wait_for<T>(&mut self, result: impl Future<Output = T>) -> T {
        if self.longest.is_zero() {
            return result.await;
        }
        let began = Instant::now();
        let until = if self.polls() { began + self.longest } else { began };
        let value = tokio::select! {
            biased;
            value = result => value,
            never = stay_awake(until) => match never {},
        };
        self.learn(began.elapsed() <= self.longest);
        value
    }

    fn polls(&self) -> bool {
        self.score >= Self::ENOUGH
    }

    fn learn(&mut self, in_time: bool) {
        self.score = if in_time { Self::MAX.min(self.score + 1) } else { self.score.saturating_sub(2) };
    }
}

/// Keeps this thread from sleeping.
async fn stay_awake(until: Instant) -> Infallible {
    while Instant::now() < until {
        yield_now().await;
    }
    pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of a hundred results it polls for, if this pattern repeats.
    fn polled_for(comes: &[bool]) -> usize {
        let mut busy_poll = BusyPoll::new(Duration::from_micros(1));
        let mut polls = comes.iter().cycle().take(400).map(|in_time| {
            let polls = busy_poll.polls();
            busy_poll.learn(*in_time);
            polls
        });
        // By then the initial score has no effect.
        polls.by_ref().take(300).for_each(drop);
        polls.filter(|polls| *polls).count()
    }

    #[test]
    fn it_polls_for_what_mostly_comes_in_time_and_for_nothing_else() {
        assert_eq!(polled_for(&[true]), 100);
        assert_eq!(polled_for(&[true, true, true, false]), 100);
        assert_eq!(polled_for(&[true, false]), 0);
        assert_eq!(polled_for(&[false]), 0);
    }

    #[test]
    fn it_begins_again_when_that_would_pay() {
        let mut busy_poll = BusyPoll::new(Duration::from_micros(1));
        (0..100).for_each(|_| busy_poll.learn(false));
        assert!(!busy_poll.polls());
        (0..BusyPoll::ENOUGH).for_each(|_| busy_poll.learn(true));
        assert!(busy_poll.polls());
    }
}
