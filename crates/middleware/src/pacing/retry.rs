//! What is tried again, and when.

use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::learn::retry_after;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// Jitter on top of `Retry-After` goes up to a tenth of it, between these two.
const LEAST_JITTER: Duration = Duration::from_millis(100);
const MOST_JITTER: Duration = Duration::from_secs(5);

/// A body that can be sent more than once. Whatever can be cloned is one.
pub trait Replay: Sized {
    /// The same body anew; `None` if it can be sent once only, and then nothing is tried again.
    fn replay(&self) -> Option<Self>;
}

impl<B: Clone> Replay for B {
    fn replay(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// How long to wait before a response is asked for again; `None` if it is not.
pub(super) fn wait_after_response(
    head: &Parts,
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
    tries: u32,
) -> Option<Duration> {
    let told = retry_after(headers, now);
    let denied = status == StatusCode::TOO_MANY_REQUESTS;
    let away = status == StatusCode::SERVICE_UNAVAILABLE;
    let broken = away || status == StatusCode::BAD_GATEWAY || status == StatusCode::GATEWAY_TIMEOUT;
    // Whoever denies has done nothing, and so says whoever names a time.
    let again = denied || (away && told.is_some()) || (broken && is_idempotent(head));
    again.then(|| told.map_or_else(|| backoff(tries), with_jitter))
}

/// The same after an error: nobody knows what was done.
pub(super) fn wait_after_error(head: &Parts, tries: u32) -> Option<Duration> {
    is_idempotent(head).then(|| backoff(tries))
}

fn is_idempotent(head: &Parts) -> bool {
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::TRACE];
    methods.contains(&head.method) || head.headers.contains_key("idempotency-key")
}

fn backoff(tries: u32) -> Duration {
    random_up_to(FIRST_BACKOFF.saturating_mul(1 << tries.min(16)).min(LONGEST_BACKOFF))
}

fn with_jitter(wait: Duration) -> Duration {
    wait.saturating_add(random_up_to((wait / 10).min(MOST_JITTER).max(LEAST_JITTER)))
}

fn random_up_to(most: Duration) -> Duration {
    Duration::from_micros(fastrand::u64(0..=most.as_micros() as u64))
}
