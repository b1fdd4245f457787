//! The Tower layer for clients that pace themselves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use tower_layer::Layer;

use super::learn::Learned;
use super::pacer::Pacer;
use super::retry::Random;
use super::service::Paced;

/// Paces requests to each host by the rate limits in its responses. Clones share what they have learned.
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
    /// The wall clock, for responses that state points in time instead of durations.
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
    /// Creates a layer that retries up to three times within 30 seconds, and learns limits per host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of retries of a request.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.settings.max_retries = retries;
        self
    }

    /// Sets how long a request may take, including waits and retries. A wait that would end after the deadline is not
    /// begun: the last response or error is returned, or the request is sent at once if there is none yet.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets a function that returns which requests share their limits, such as all those with the same API key. The
    /// default is the host.
    pub fn key(mut self, key: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.settings.key = Arc::new(key);
        self
    }

    /// Sets the source of the current date and time, for responses that state points in time. The default is the
    /// system clock.
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.settings.wall_clock = Arc::new(now);
        self
    }

    /// Sets the source of random numbers from 0 to 1, for jitter and backoff.
    pub fn random(mut self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.settings.random = Arc::new(random);
        self
    }

    /// Returns the limits in the last response of a host, or of a key that the key function returns.
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

/// Returns the host of the URI, or of the `Host` header if the URI has none.
fn host_of(head: &Parts) -> String {
    let named = || head.headers.get(http::header::HOST)?.to_str().ok();
    head.uri
        .authority()
        .map(http::uri::Authority::as_str)
        .or_else(named)
        .unwrap_or_default()
        .to_ascii_lowercase()
}

#[expect(clippy::disallowed_methods, reason = "the default clock, for dates in responses")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}
