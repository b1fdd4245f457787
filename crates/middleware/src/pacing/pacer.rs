//! What is known of each host, and whose turn it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::learn::{Learned, learn};

/// So many hosts are remembered; of more, nothing is.
const MOST_HOSTS: usize = 10_000;

/// How far apart those go who waited together, where nothing says how fast they may.
const LEAST_STEP: Duration = Duration::from_millis(50);

/// Longer than anybody waits.
const A_YEAR: Duration = Duration::from_hours(24 * 365);

/// All hosts.
#[derive(Default)]
pub(super) struct Pacer(Mutex<HashMap<String, Arc<Host>>>);

/// One host. Whoever is first in line waits for the limits; the others wait for the line.
#[derive(Default)]
pub(super) struct Host {
    line: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// What the last answer that told something told.
    learned: Option<Learned>,
    asked: Option<Asked>,
    /// When the next of those who wait may go.
    free_at: Option<Instant>,
}

/// The wait that an answer asked for.
struct Asked {
    by: Learned,
    until: Instant,
}

impl Pacer {
    pub(super) fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.0.lock();
        if let Some(host) = hosts.get(name) {
            return Arc::clone(host);
        }
        if hosts.len() >= MOST_HOSTS {
            let now = Instant::now();
            hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.ready_at(now) > now);
        }
        let host = Arc::<Host>::default();
        if hosts.len() < MOST_HOSTS {
            hosts.insert(name.to_owned(), Arc::clone(&host));
        }
        host
    }

    pub(super) fn learned(&self, name: &str) -> Option<Learned> {
        let host = self.0.lock().get(name).cloned()?;
        let known = host.known.lock();
        known.learned.clone()
    }
}

impl Host {
    /// Takes in what an answer says. One that says nothing changes nothing, and none makes a wait shorter that
    /// another one asked for: it may be late, and of a request that was sent before.
    pub(super) fn learn(&self, status: StatusCode, headers: &HeaderMap, now: SystemTime) {
        let learned = learn(status, headers, now);
        if !learned.tells_something() {
            return;
        }
        let mut known = self.known.lock();
        let now = Instant::now();
        let until = now.checked_add(learned.delay(Duration::ZERO)).unwrap_or(now + A_YEAR);
        if known.asked.as_ref().is_none_or(|asked| asked.until <= now || asked.until <= until) {
            known.asked = Some(Asked { by: learned.clone(), until });
        }
        known.learned = Some(learned);
    }

    /// Waits until this request may go, in the order they came. False if that is after the deadline; then
    /// nothing was waited for that can be known before.
    pub(super) async fn turn(&self, deadline: Instant) -> bool {
        let Ok(_first) = timeout_at(deadline, self.line.lock()).await else { return false };
        loop {
            let now = Instant::now();
            let at = self.ready_at(now);
            if at <= now {
                self.known.lock().go(now);
                return true;
            }
            if at > deadline {
                return false;
            }
            // What is learnt meanwhile may make it longer.
            sleep_until(at).await;
        }
    }

    fn ready_at(&self, now: Instant) -> Instant {
        let known = self.known.lock();
        let Some(asked) = &known.asked else { return now };
        let ready = asked.until.max(now);
        known.free_at.map_or(ready, |free_at| free_at.max(ready))
    }
}

impl Known {
    /// A request goes now. If those before it had to wait, the next waits for a step.
    fn go(&mut self, now: Instant) {
        let waited = self.asked.as_ref().filter(|asked| asked.by.delay(Duration::ZERO) > Duration::ZERO);
        let step = |asked: &Asked| asked.by.spread().or_else(|| asked.by.pace()).unwrap_or(LEAST_STEP);
        self.free_at = waited.map(|asked| now + step(asked));
    }
}
