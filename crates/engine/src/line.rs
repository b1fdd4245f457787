//! Waiting one's turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Key;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout_at};

use crate::decide::{Charges, Intent, Scope, charges};
use crate::decision::Decision;
use crate::limiter::Inner;
use crate::request::Request;

/// The lines of those who wait, one per set of limits. Whoever is first in line waits for the
/// limits; the others wait for the line, which lets them through in the order they came.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<Key, Line>>);

type Line = Arc<tokio::sync::Mutex<()>>;

/// Being first in line, until dropped.
struct Turn<'a> {
    lines: &'a Lines,
    key: Key,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Lines {
    async fn turn(&self, key: Key) -> Turn<'_> {
        // Made before waiting, so that whoever gives up cleans up too.
        let mut turn = Turn { lines: self, key, guard: None };
        let line = Arc::clone(self.0.lock().entry(key).or_default());
        turn.guard = Some(line.lock_owned().await);
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut lines = self.lines.0.lock();
        if lines.get(&self.key).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.key);
        }
    }
}

/// Gives back what a decision took, unless it is kept.
struct Place<'a, 'r> {
    limiter: &'a Inner,
    request: &'a Request<'r>,
    decision: &'a Decision,
    kept: bool,
}

impl Drop for Place<'_, '_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // By the rules of the decision, which may have changed since; shadow limits that denied took
        // nothing.
        let charges = charges(self.decision.rules(), self.request, Scope::Rates { hold: true });
        let taken = charges.iter().zip(self.decision.items());
        let taken = taken.filter(|(charge, item)| item.verdict.allowed() || charge.count_denied);
        let taken: Charges<'_> = taken.map(|(charge, _)| *charge).collect();
        self.limiter.give_back_soon(&taken);
    }
}

/// See [`crate::Limiter::until_ready`].
pub(crate) async fn until_ready(limiter: &Inner, request: &Request<'_>, patience: Duration) -> Decision {
    let now = Instant::now();
    // Beyond what the timer can count, wait for a year.
    let deadline = now.checked_add(patience).unwrap_or(now + Duration::from_hours(365 * 24));
    let Ok(turn) = timeout_at(deadline, limiter.lines.turn(line_key(limiter, request))).await else {
        return limiter.decide_anywhere(request, Scope::Rates { hold: false }, Intent::Take).await;
    };
    loop {
        let decision = limiter.decide_anywhere(request, Scope::Rates { hold: true }, Intent::Take).await;
        if decision.allowed() {
            drop(turn);
            return hold(limiter, request, decision, deadline).await;
        }
        let retry = decision.retry_after().unwrap_or(Duration::MAX);
        match Instant::now().checked_add(retry) {
            Some(at) if at <= deadline => sleep(retry).await,
            _ => return decision,
        }
    }
}

/// Holds a request for as long as its queue says, or gives its place back if that is too long.
async fn hold(limiter: &Inner, request: &Request<'_>, decision: Decision, deadline: Instant) -> Decision {
    let wait = Duration::from_micros(decision.wait_us());
    if wait.is_zero() {
        return decision;
    }
    let mut place = Place { limiter, request, decision: &decision, kept: false };
    if Instant::now() + wait > deadline {
        drop(place);
        return limiter.decide_anywhere(request, Scope::Rates { hold: false }, Intent::Take).await;
    }
    sleep(wait).await;
    place.kept = true;
    drop(place);
    decision
}

fn line_key(limiter: &Inner, request: &Request<'_>) -> Key {
    let rules = limiter.rules.load();
    #[cfg(feature = "remote")]
    if limiter.remote.is_some() {
        // Only the service knows the limits.
        let entries =
            request.descriptors().flat_map(|(entries, _)| entries).flat_map(|(key, value)| [*key, *value]);
        return rules.seed.texts(std::iter::once(request.domain()).chain(entries));
    }
    let charges = charges(&rules, request, Scope::Rates { hold: true });
    charges.iter().fold(Key::NONE, |line, charge| line.then(charge.key))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::yield_now;

    use crate::{Domain, Limiter, Request, Rule, VirtualClock, per_hour};

    /// Nobody outside can see the lines, and each that is left behind would be a leak.
    #[tokio::test(start_paused = true)]
    async fn a_line_is_gone_when_nobody_is_in_it() {
        let domain = Domain::new("d").rule(Rule::by("k").limit(per_hour(1)));
        let limiter =
            Limiter::builder().domain(domain).clock(VirtualClock::new()).build().expect("good rules");
        let lines = || limiter.inner.lines.0.lock().len();
        let wait = |value: &'static str, patience| {
            let limiter = limiter.clone();
            tokio::spawn(
                async move { limiter.until_ready(&Request::new("d", [("k", value)]), patience).await },
            )
        };
        assert!(wait("a", Duration::ZERO).await.is_ok_and(|decision| decision.allowed()));
        assert!(wait("a", Duration::ZERO).await.is_ok_and(|decision| !decision.allowed()));
        assert_eq!(lines(), 0);

        limiter.check_now(&Request::new("d", [("k", "b")]));
        let (first, second, third) =
            (wait("a", Duration::MAX), wait("a", Duration::MAX), wait("b", Duration::MAX));
        let impatient = wait("a", Duration::from_millis(5));
        yield_now().await;
        assert_eq!(lines(), 2);
        assert!(impatient.await.is_ok_and(|decision| !decision.allowed()));
        assert_eq!(lines(), 2);
        // Whether first in line or behind.
        for (task, left) in [(second, 2), (third, 1), (first, 0)] {
            task.abort();
            assert!(task.await.is_err());
            assert_eq!(lines(), left);
        }
    }
}
