//! Polling for a result instead of sleeping, for as long as that pays.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use quanta::Instant;
use tokio::task::yield_now;

/// Waits for results of one kind that come again and again.
///
/// A thread that sleeps has to be woken by another core, which takes about as long as Redis takes for its reply. A
/// thread that polls needs its whole core. So it polls only if results mostly came in time before.
pub(super) struct BusyPoll {
    longest: Duration,
    /// Grows by one with every result that came in time, and shrinks by two with every one that did not.
    score: u8,
}

impl BusyPoll {
    /// From this score on it polls: two of three results come in time.
    const ENOUGH: u8 = 4;
    const MAX: u8 = 8;

    /// Polls for at most `longest` each time; zero never polls.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, score: Self::ENOUGH }
    }

    /// Waits for a result, first polling if that has paid lately.
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

    /// How many of a hundred results it polls for, if they go on like this.
    fn polled_for(comes: &[bool]) -> usize {
        let mut busy_poll = BusyPoll::new(Duration::from_micros(1));
        let mut polls = comes.iter().cycle().take(400).map(|in_time| {
            let polls = busy_poll.polls();
            busy_poll.learn(*in_time);
            polls
        });
        // The first score is forgotten by then.
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
