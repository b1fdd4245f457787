//! The names of the rate limit headers.

use http::HeaderName;

/// Lists the limits that apply: `RateLimit-Policy: "api_key:steady";q=100;w=60`.
pub static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// States what is left of each limit: `RateLimit: "api_key:steady";r=19;t=1`.
pub static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Draft 06: the size of the deciding limit, in units per window.
pub static RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// Draft 06: units left of the deciding limit.
pub static RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// Draft 06: seconds until more units of the deciding limit are available.
pub static RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Widely used: the size of the deciding limit, in units per window.
pub static X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// Widely used: units left of the deciding limit.
pub static X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Widely used: when more units are available, in seconds since the Unix epoch.
pub static X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Seconds to wait before retrying; only on denials.
pub static RETRY_AFTER: HeaderName = HeaderName::from_static("retry-after");
