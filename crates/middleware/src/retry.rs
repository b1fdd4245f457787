//! Computes when a denied request may be retried.

use std::time::Duration;

use tidegate::{Decision, LimitStatus, Request};
use tidegate_core::Algorithm;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const SECOND_US: u64 = 1_000_000;

/// The divisor for the largest jitter: a tenth of the wait.
const JITTER_PART: u64 = 10;

/// The largest jitter, in seconds.
const JITTER_MOST_S: u64 = 5;

/// Returns `Retry-After` in whole seconds; `None` if the request is allowed, or can never pass.
///
/// The exact wait is rounded up, so it is never too short. A jitter of whole seconds is added, at most a tenth of the
/// wait and at most 5 s, so that requests denied at the same time are not all retried at the same time. The jitter is
/// computed from the descriptor and the rule, so it is the same on every node. For a concurrency limit, whose slots
/// may be returned at any time, the result is 1 or 2 s.
pub(crate) fn retry_after_s(request: &Request<'_>, decision: &Decision) -> Option<u64> {
    if decision.allowed() {
        return None;
    }
    let by = decision.decided_by()?;
    let wait_us = finite_us(by.retry_after?)?;
    let most_s = match by.limit.algorithm() {
        // It is not known when a slot will be free, so clients retry soon, but not all at once.
        Algorithm::Concurrency => 1,
        _ => (wait_us / SECOND_US / JITTER_PART).min(JITTER_MOST_S),
    };
    let jitter_s = if most_s == 0 { 0 } else { partition(request, &by) % (most_s + 1) };
    Some(ceil_s(wait_us).max(1) + jitter_s)
}

/// Returns the microseconds until more of a limit is available. For a limit that denies, this is when the same
/// request would pass. For others it is when they are full again or one window has passed, whichever is first.
pub(crate) fn more_after_us(status: &LimitStatus<'_>) -> u64 {
    match status.retry_after.and_then(finite_us) {
        Some(retry_us) => retry_us,
        None => micros(status.reset_after).min(status.limit.period_us()),
    }
}

/// Returns a wait in microseconds; `None` if it never ends.
pub(crate) fn finite_us(wait: Duration) -> Option<u64> {
    (wait != Duration::MAX).then(|| micros(wait))
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Converts microseconds to whole seconds, rounded up.
pub(crate) fn ceil_s(us: u64) -> u64 {
    us.div_ceil(SECOND_US)
}

/// Converts microseconds to whole milliseconds, rounded up.
pub(crate) fn ceil_ms(us: u64) -> u64 {
    us.div_ceil(1_000)
}

/// Returns a hash of the domain, the rule and the entries of the limit's descriptor. It is the same on every node.
///
/// Each text is hashed with the previous hash as the seed, so that different lists do not run together.
pub(crate) fn partition(request: &Request<'_>, status: &LimitStatus<'_>) -> u64 {
    let fold = |hash, text: &str| xxh3_64_with_seed(text.as_bytes(), hash);
    let hash = fold(fold(0, request.domain()), status.rule);
    let descriptor = status.descriptor.and_then(|descriptor| request.descriptors().nth(descriptor));
    let entries = descriptor.map_or(&[][..], |(entries, _)| entries);
    entries.iter().fold(hash, |hash, (key, value)| fold(fold(hash, key), value))
}
