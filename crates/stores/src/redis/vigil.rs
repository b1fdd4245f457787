//! Looking for what is awaited instead of sleeping, for as long as that pays.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use quanta::Instant;
use tokio::task::yield_now;

/// How one thing is awaited that comes again and again.
///
/// Who sleeps has to be woken by another core, and that takes about as long as Redis takes for its answer.
/// Who looks instead needs the whole core. So it is looked for only if it mostly came in time before.
pub(super) struct Vigil {
    longest: Duration,
    /// More with everything that came in time, less by twice as much with everything that did not.
    luck: u8,
}

impl Vigil {
    /// From here on it is looked for: two of three come in time.
    const ENOUGH: u8 = 4;
    const MOST: u8 = 8;

    /// One that looks for at most so long each time; zero never does.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, luck: Self::ENOUGH }
    }

    /// Awaits something.
    pub(super) async fn keep<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        if self.longest.is_zero() {
            return awaited.await;
        }
        let began = Instant::now();
        let until = if self.looks() { began + self.longest } else { began };
        let came = tokio::select! {
            biased;
            came = awaited => came,
            never = stay_awake(until) => match never {},
        };
        self.learn(began.elapsed() <= self.longest);
        came
    }

    fn looks(&self) -> bool {
        self.luck >= Self::ENOUGH
    }

    fn learn(&mut self, in_time: bool) {
        self.luck = if in_time { Self::MOST.min(self.luck + 1) } else { self.luck.saturating_sub(2) };
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

    /// How many of a hundred it looks for, if it goes on like this.
    fn looked_for(comes: &[bool]) -> usize {
        let mut vigil = Vigil::new(Duration::from_micros(1));
        let mut looks = comes.iter().cycle().take(400).map(|in_time| {
            let looks = vigil.looks();
            vigil.learn(*in_time);
            looks
        });
        // What it was before is forgotten by then.
        looks.by_ref().take(300).for_each(drop);
        looks.filter(|looks| *looks).count()
    }

    #[test]
    fn it_looks_for_what_mostly_comes_in_time_and_for_nothing_else() {
        assert_eq!(looked_for(&[true]), 100);
        assert_eq!(looked_for(&[true, true, true, false]), 100);
        assert_eq!(looked_for(&[true, false]), 0);
        assert_eq!(looked_for(&[false]), 0);
    }

    #[test]
    fn it_begins_again_when_that_would_pay() {
        let mut vigil = Vigil::new(Duration::from_micros(1));
        (0..100).for_each(|_| vigil.learn(false));
        assert!(!vigil.looks());
        (0..Vigil::ENOUGH).for_each(|_| vigil.learn(true));
        assert!(vigil.looks());
    }
}
