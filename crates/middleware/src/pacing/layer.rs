//! The Tower layer of clients that pace themselves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use tower_layer::Layer;

use super::learn::Learned;
use super::pacer::Pacer;
use super::retry::Random;
use super::service::Paced;

/// Paces requests to each host by the rate limits in its responses. Clones share what they learned.
#[derive(Clone)]
#[must_use = "add it to a client"]
pub struct PacingLayer {
    pub(super) pacer: Arc<Pacer>,
    pub(super) settings: Settings,
}

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) max_retries: u32,
    pub(super) deadline: Duration,
    pub(super) key: Arc<dyn Fn(&Parts) -> String + Send + Sync>,
    /// For responses that name points in time instead of waits.
    pub(super) wall_clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    pub(super) random: Arc<Random>,
}

impl Default for PacingLayer {
    fn default() -> Self {
        let settings = Settings {
            max_retries: 3,
            deadline: Duration::from_secs(30),
            key: Arc::new(host_of),
            wall_clock: Arc::new(wall_clock),
            random: Arc::new(fastrand::f64),
        };
        Self { pacer: Arc::default(), settings }
    }
}

impl PacingLayer {
    /// A layer with up to three retries within 30 seconds, that learns limits by host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how often a request is tried again at most.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.settings.max_retries = retries;
        self
    }

    /// Sets when to give up. A wait that would end later is not begun: the last response or error is returned,
    /// or the request goes at once if there is none yet.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets which requests share their limits, such as all with one API key.
    pub fn key(mut self, key: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.settings.key = Arc::new(key);
        self
    }

    /// Sets where the date and time come from, which some responses refer to; the system's by default.
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.settings.wall_clock = Arc::new(now);
        self
    }

    /// Sets where random numbers from 0 to 1 come from, for jitter and backoff.
    pub fn random(mut self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.settings.random = Arc::new(random);
        self
    }

    /// Returns the limits in the last response of a host, or of whatever the key function names.
    pub fn learned(&self, key: &str) -> Option<Learned> {
        self.pacer.learned(key)
    }
}

impl<S> Layer<S> for PacingLayer {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        Paced { inner, pacing: self.clone() }
    }
}

/// The host of the URI, or of the `Host` header where the URI has none.
fn host_of(head: &Parts) -> String {
    let named = || head.headers.get(http::header::HOST)?.to_str().ok();
    head.uri
        .authority()
        .map(http::uri::Authority::as_str)
        .or_else(named)
        .unwrap_or_default()
        .to_ascii_lowercase()
}

#[expect(clippy::disallowed_methods, reason = "the time of other machines, for whoever injects none")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}
