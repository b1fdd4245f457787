//! When a denied request may come back.

use std::time::Duration;

use tidegate::{Decision, LimitStatus, Request};
use tidegate_core::Algorithm;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const SECOND_US: u64 = 1_000_000;

/// Part of the wait that jitter may add, as a divisor: a tenth.
const JITTER_PART: u64 = 10;

/// The most that jitter adds, in seconds.
const JITTER_MOST_S: u64 = 5;

/// `Retry-After` of a denial in whole seconds; `None` if it passes, or never will.
///
/// The exact wait is rounded up, so that it is never too short. On top comes a jitter of whole
/// seconds, at most a tenth of the wait and at most 5 s, so that those who were denied together do not
/// return together. It is a function of the descriptor and the rule, so every node gives the same. Of a concurrency
/// limit, whose slots may return at any time, it is 1 or 2 s.
pub(crate) fn retry_after_s(request: &Request<'_>, decision: &Decision) -> Option<u64> {
    if decision.allowed() {
        return None;
    }
    let by = decision.decided_by()?;
    let wait_us = finite_us(by.retry_after?)?;
    let most_s = match by.limit.algorithm() {
        // Nobody knows when a slot is free: those who wait ask again now and then, not all at once.
        Algorithm::Concurrency => 1,
        _ => (wait_us / SECOND_US / JITTER_PART).min(JITTER_MOST_S),
    };
    let jitter_s = if most_s == 0 { 0 } else { partition(request, &by) % (most_s + 1) };
    Some(ceil_s(wait_us).max(1) + jitter_s)
}

/// The time until there is more of a limit. One that denies has more when the same request would
/// pass; others when they are untouched again, or one window has gone by, whichever is first.
pub(crate) fn more_after_us(status: &LimitStatus<'_>) -> u64 {
    match status.retry_after.and_then(finite_us) {
        Some(retry_us) => retry_us,
        None => micros(status.reset_after).min(status.limit.period_us()),
    }
}

/// Microseconds of a wait; `None` if it is for ever.
pub(crate) fn finite_us(wait: Duration) -> Option<u64> {
    (wait != Duration::MAX).then(|| micros(wait))
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Whole seconds, rounded up.
pub(crate) fn ceil_s(us: u64) -> u64 {
    us.div_ceil(SECOND_US)
}

/// Whole milliseconds, rounded up.
pub(crate) fn ceil_ms(us: u64) -> u64 {
    us.div_ceil(1_000)
}

/// A hash of domain, rule and the entries of the limit's descriptor, the same on every node.
///
/// Each text is hashed with the hash of those before it as the seed, so no two lists run together.
pub(crate) fn partition(request: &Request<'_>, status: &LimitStatus<'_>) -> u64 {
    let fold = |hash, text: &str| xxh3_64_with_seed(text.as_bytes(), hash);
    let hash = fold(fold(0, request.domain()), status.rule);
    let descriptor = status.descriptor.and_then(|descriptor| request.descriptors().nth(descriptor));
    let entries = descriptor.map_or(&[][..], |(entries, _)| entries);
    entries.iter().fold(hash, |hash, (key, value)| fold(fold(hash, key), value))
}
