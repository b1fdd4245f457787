//! What is measured: a limiter of ours, and governor's.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter, clock};
use tidegate::{BuildError, Domain, LimitSpec, Limiter, Request, Rule, per, per_second};

/// governor's limiter, keyed by `String` in its `DashMap` store.
pub type Governor = RateLimiter<String, DashMapStateStore<String>, clock::DefaultClock>;

/// So high that every decision of a benchmark is allowed.
const GENEROUS: u32 = 10_000;

/// Counters of limits this long stay for as long as a benchmark takes.
pub const DAY: Duration = Duration::from_secs(86_400);

/// A token bucket in governor that nobody in a benchmark empties.
pub fn governor() -> Governor {
    RateLimiter::dashmap(Quota::per_second(NonZeroU32::new(GENEROUS).unwrap_or(NonZeroU32::MAX)))
}

/// A token bucket in governor of one request a day.
pub fn strict_governor() -> Governor {
    RateLimiter::dashmap(Quota::with_period(DAY).unwrap_or(Quota::per_hour(NonZeroU32::MIN)))
}

/// The same token bucket as in [`governor`].
pub fn generous() -> LimitSpec {
    per_second(u64::from(GENEROUS)).token_bucket()
}

/// A limit of `requests` per `period` in every algorithm.
pub fn every_algorithm(requests: u64, period: Duration) -> [(&'static str, LimitSpec); 8] {
    let limit = || per(requests, period);
    [
        ("fixed_window", limit().fixed_window()),
        ("sliding_window", limit().sliding_window()),
        ("sub_windows, k=10", limit().sub_windows(10)),
        ("sub_windows, k=60", limit().sub_windows(60)),
        ("sliding_log", limit().sliding_log()),
        ("token_bucket", limit().token_bucket()),
        ("leaky_bucket, meter", limit().leaky_bucket().burst(requests)),
        ("leaky_bucket, queue", limit().queue(requests)),
    ]
}

/// A limiter with one rule, a limit for each user, and room for twice as many keys.
///
/// # Errors
/// If the limit is not one.
pub fn limiter(limit: LimitSpec, keys: usize) -> Result<Limiter, BuildError> {
    let domain = Domain::new("api").rule(Rule::by("user").limit(limit));
    Limiter::builder().domain(domain).max_keys(2 * keys).build()
}

/// Asks governor.
#[expect(clippy::ptr_arg, reason = "governor takes a reference to its key type")]
#[inline]
pub fn ask_governor(limiter: &Governor, name: &String) -> bool {
    limiter.check_key(name).is_ok()
}

/// Asks Tidegate.
#[inline]
pub fn ask(limiter: &Limiter, name: &str) -> bool {
    limiter.check_now(&Request::new("api", [("user", name)])).allowed()
}
