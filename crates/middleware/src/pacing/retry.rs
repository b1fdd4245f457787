//! What is retried, and when.

use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode};

use super::learn::Learned;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// A wait that the response states gets a jitter of up to a tenth of it, but within these bounds.
const LEAST_JITTER: Duration = Duration::from_millis(100);
const MOST_JITTER: Duration = Duration::from_secs(5);

/// A source of random numbers from 0 to 1.
pub(super) type Random = dyn Fn() -> f64 + Send + Sync;

/// A body that can be sent more than once. Implemented for every body that can be cloned.
pub trait Replay: Sized {
    /// Returns a copy of the body, or `None` if it can be sent only once; then the request is not retried.
    fn replay(&self) -> Option<Self>;
}

impl<B: Clone> Replay for B {
    fn replay(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// Returns how long to wait before a request is retried after this response; `None` if it is not retried.
pub(super) fn wait_after_response(
    head: &Parts,
    status: StatusCode,
    learned: &Learned,
    random: &Random,
    tries: u32,
) -> Option<Duration> {
    let broken = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT]
        .contains(&status);
    // A server that denies a request has not processed it, so a retry is safe.
    let again = learned.is_denial(status) || (broken && is_idempotent(head));
    again.then(|| match learned.told_wait() {
        Some(wait) => wait.saturating_add(part_of((wait / 10).clamp(LEAST_JITTER, MOST_JITTER), random)),
        None => backoff(tries, random),
    })
}

/// Returns how long to wait before a request is retried after an error; `None` if it is not retried. It is not known
/// whether the server has processed the request.
pub(super) fn wait_after_error(head: &Parts, random: &Random, tries: u32) -> Option<Duration> {
    is_idempotent(head).then(|| backoff(tries, random))
}

fn is_idempotent(head: &Parts) -> bool {
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::TRACE];
    methods.contains(&head.method) || head.headers.contains_key("idempotency-key")
}

fn backoff(tries: u32, random: &Random) -> Duration {
    part_of(FIRST_BACKOFF.saturating_mul(1 << tries.min(16)).min(LONGEST_BACKOFF), random)
}

/// Returns a random part of a duration.
fn part_of(most: Duration, random: &Random) -> Duration {
    most.mul_f64(random().clamp(0.0, 1.0))
}
