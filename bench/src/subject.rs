//! What is measured: a limiter of ours, and governor's.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter, clock};
use tidegate::{BuildError, Domain, LimitSpec, Limiter, Request, Rule, per};

/// governor's limiter, keyed by `String` in its `DashMap` store.
pub type Governor = RateLimiter<String, DashMapStateStore<String>, clock::DefaultClock>;

/// Counters of limits this long stay for as long as a benchmark takes.
pub const DAY: Duration = Duration::from_hours(24);

/// Requests per day: so many that no benchmark is ever denied one, and so few that a key which was
/// charged once counts for 8.6 s. A bucket that refills at once would be swept between two requests,
/// and what is to be measured are decisions on keys that are there.
const GENEROUS: u32 = 10_000;

/// The token bucket of [`generous`] in governor.
pub fn governor() -> Governor {
    let burst = NonZeroU32::new(GENEROUS).unwrap_or(NonZeroU32::MIN);
    RateLimiter::dashmap(one_per(DAY / GENEROUS).allow_burst(burst))
}

/// A token bucket in governor of one request a day.
pub fn strict_governor() -> Governor {
    RateLimiter::dashmap(one_per(DAY))
}

fn one_per(period: Duration) -> Quota {
    Quota::with_period(period).unwrap_or(Quota::per_second(NonZeroU32::MIN))
}

/// A token bucket that nobody in a benchmark empties.
pub fn generous() -> LimitSpec {
    per(u64::from(GENEROUS), DAY).token_bucket()
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
#[inline]
pub fn ask_governor(limiter: &Governor, name: &String) -> bool {
    limiter.check_key(name).is_ok()
}

/// Asks Tidegate.
#[inline]
pub fn ask(limiter: &Limiter, name: &str) -> bool {
    limiter.check_now(&Request::new("api", [("user", name)])).allowed()
}
