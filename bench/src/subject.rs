//! The measured limiters: Tidegate's and governor's.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter, clock};
use tidegate::{BuildError, Domain, LimitSpec, Limiter, Request, Rule, per};

/// The limiter of governor, keyed by `String` in its `DashMap` store.
pub type Governor = RateLimiter<String, DashMapStateStore<String>, clock::DefaultClock>;

/// A period so long that counters do not expire during a benchmark.
pub const DAY: Duration = Duration::from_hours(24);

/// Requests per day: so many that no benchmark is denied, and so few that a key that was charged once counts for 8.6
/// s. A bucket that refills at once would be swept between two requests, but the benchmarks measure decisions on
/// existing keys.
const GENEROUS: u32 = 10_000;

/// Returns a governor limiter with the token bucket of [`generous`].
pub fn governor() -> Governor {
    let burst = NonZeroU32::new(GENEROUS).unwrap_or(NonZeroU32::MIN);
    RateLimiter::dashmap(one_per(DAY / GENEROUS).allow_burst(burst))
}

/// Returns a governor limiter with a token bucket of one request a day.
pub fn strict_governor() -> Governor {
    RateLimiter::dashmap(one_per(DAY))
}

fn one_per(period: Duration) -> Quota {
    Quota::with_period(period).unwrap_or(Quota::per_second(NonZeroU32::MIN))
}

/// Returns a token bucket that no benchmark empties.
pub fn generous() -> LimitSpec {
    per(u64::from(GENEROUS), DAY).token_bucket()
}

/// Returns a limit of `requests` per `period` for every algorithm.
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

/// Returns a limiter with one rule, a limit for each user, and room for twice as many keys.
///
/// # Errors
/// Returns an error if the limit is invalid.
pub fn limiter(limit: LimitSpec, keys: usize) -> Result<Limiter, BuildError> {
    let domain = Domain::new("api").rule(Rule::by("user").limit(limit));
    Limiter::builder().domain(domain).max_keys(2 * keys).build()
}

/// Decides one request with governor.
#[inline]
pub fn ask_governor(limiter: &Governor, name: &String) -> bool {
    limiter.check_key(name).is_ok()
}

/// Decides one request with Tidegate.
#[inline]
pub fn ask(limiter: &Limiter, name: &str) -> bool {
    limiter.check_now(&Request::new("api", [("user", name)])).allowed()
}
