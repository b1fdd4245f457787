//! Queues of requests that wait until they are allowed, in order of arrival.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Key, Outcome};
use tidegate_stores::{Force, Intent};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout_at};

use crate::decision::{Charged, Decision};
use crate::limiter::Inner;
use crate::plan::{Plan, Scope};
use crate::request::Request;

/// The queues of waiting requests, one per set of limits. The first request of a queue waits for the limits; the
/// others wait for the queue, which lets them through in order.
pub struct Lines<K>(Mutex<HashMap<K, Line>>);

type Line = Arc<tokio::sync::Mutex<()>>;

/// The first position of a queue, until it is dropped.
pub struct Turn<'a, K: Eq + Hash> {
    lines: &'a Lines<K>,
    key: K,
    guard: Option<OwnedMutexGuard<()>>,
}

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Lines<K> {
    /// Waits until all earlier requests have left the queue of this key.
    pub async fn turn(&self, key: K) -> Turn<'_, K> {
        // Created before waiting, so that a caller that gives up also cleans up.
        let mut turn = Turn { lines: self, key: key.clone(), guard: None };
        let line = Arc::clone(self.0.lock().entry(key).or_default());
        turn.guard = Some(line.lock_owned().await);
        turn
    }
}

impl<K: Eq + Hash> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        self.guard = None;
        let mut lines = self.lines.0.lock();
        if lines.get(&self.key).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.key);
        }
    }
}

/// Refunds what a plan took when it is dropped, unless it is kept.
struct Taken<'a, 'r> {
    limiter: &'a Inner,
    plan: &'a Plan<'r>,
    kept: bool,
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        if !self.kept {
            self.limiter.backend.give_back_soon(&self.plan.taken());
        }
    }
}

/// Implements [`crate::Limiter::until_ready`].
pub(crate) async fn until_ready(limiter: &Inner, request: &Request<'_>, patience: Duration) -> Decision {
    let now = Instant::now();
    // Beyond the range of the timer, wait for a year.
    let deadline = now.checked_add(patience).unwrap_or(now + Duration::from_hours(365 * 24));
    let Ok(turn) = timeout_at(deadline, limiter.lines.turn(line_key(limiter, request))).await else {
        return limiter.decide(request, Scope::RATES, Intent::Take).await;
    };
    loop {
        // Each attempt is planned anew, under the rules then in force.
        let mut charged = Charged::new(limiter.rules.load());
        let mut plan = limiter.backend.plan(&mut charged, request, Scope::Rates { hold: true });
        limiter.backend.settle(&mut plan, Intent::Take).await;
        if plan.allowed() {
            drop(turn);
            if !hold(limiter, &plan, deadline).await {
                return limiter.decide(request, Scope::RATES, Intent::Take).await;
            }
            drop(plan);
            return charged.into();
        }
        drop(plan);
        let decision = Decision::from(charged);
        let retry = decision.retry_after().unwrap_or(Duration::MAX);
        match Instant::now().checked_add(retry) {
            Some(at) if at <= deadline => sleep(retry).await,
            _ => return decision,
        }
    }
}

/// Holds an allowed request for as long as its queue requires. If that is too long, gives its charges back and
/// returns false.
async fn hold(limiter: &Inner, plan: &Plan<'_>, deadline: Instant) -> bool {
    let wait = Duration::from_micros(wait_us(plan));
    if wait.is_zero() {
        return true;
    }
    let mut taken = Taken { limiter, plan, kept: false };
    if Instant::now() + wait <= deadline {
        sleep(wait).await;
        taken.kept = true;
    }
    taken.kept
}

/// Returns the longest wait that an enforced queue requires.
fn wait_us(plan: &Plan<'_>) -> u64 {
    let enforced = plan.settled().filter(|(charge, _)| charge.force != Force::Shadow);
    let waits = enforced.map(|(_, verdict)| match verdict.outcome {
        Outcome::Held { wait_us } => wait_us,
        Outcome::Allowed | Outcome::Denied { .. } => 0,
    });
    waits.max().unwrap_or(0)
}

fn line_key(limiter: &Inner, request: &Request<'_>) -> Key {
    let mut charged = Charged::new(limiter.rules.load());
    let plan = Plan::new(&mut charged, request, Scope::Rates { hold: true });
    plan.charges.iter().fold(Key::NONE, |line, charge| line.then(charge.key))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::yield_now;

    use crate::{Domain, Limiter, Request, Rule, VirtualClock, per_hour};

    /// A queue that is not removed would be a leak that is not visible from outside.
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
        // Both for the first in the queue and for those behind it.
        for (task, left) in [(second, 2), (third, 1), (first, 0)] {
            task.abort();
            assert!(task.await.is_err());
            assert_eq!(lines(), left);
        }
    }
}
