//! What is tried again, and when.

use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode};

use super::learn::Learned;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// Jitter on top of a wait that the response states goes up to a tenth of it, between these two.
const LEAST_JITTER: Duration = Duration::from_millis(100);
const MOST_JITTER: Duration = Duration::from_secs(5);

/// Where random numbers from 0 to 1 come from.
pub(super) type Random = dyn Fn() -> f64 + Send + Sync;

/// A body that can be sent more than once. Every body that can be cloned is one.
pub trait Replay: Sized {
    /// Returns a copy of the body; `None` if it can be sent only once, and then nothing is tried again.
    fn replay(&self) -> Option<Self>;
}

impl<B: Clone> Replay for B {
    fn replay(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// How long to wait before a request is sent again after this response; `None` if it is not.
pub(super) fn wait_after_response(
    head: &Parts,
    status: StatusCode,
    learned: &Learned,
    random: &Random,
    tries: u32,
) -> Option<Duration> {
    let broken = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT]
        .contains(&status);
    // Whoever denies has done nothing.
    let again = learned.is_denial(status) || (broken && is_idempotent(head));
    again.then(|| match learned.told_wait() {
        Some(wait) => wait.saturating_add(part_of((wait / 10).clamp(LEAST_JITTER, MOST_JITTER), random)),
        None => backoff(tries, random),
    })
}

/// How long to wait before a request is sent again after an error, when nobody knows what was done; `None` if it is
/// not.
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

/// A random part of a time.
fn part_of(most: Duration, random: &Random) -> Duration {
    most.mul_f64(random().clamp(0.0, 1.0))
}
