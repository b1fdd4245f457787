//! The names of the headers.

use http::HeaderName;

/// The limits that apply: `RateLimit-Policy: "api_key:steady";q=100;w=60`.
pub static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What is left of them: `RateLimit: "api_key:steady";r=19;t=1`.
pub static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Draft 06: units of the deciding limit per window.
pub static RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// Draft 06: units left of the deciding limit.
pub static RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// Draft 06: seconds until there is more.
pub static RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The installed base: units of the deciding limit per window.
pub static X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The installed base: units left of the deciding limit.
pub static X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The installed base: when there is more, in seconds since the Unix epoch.
pub static X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Seconds to wait before trying again; on denials only.
pub static RETRY_AFTER: HeaderName = HeaderName::from_static("retry-after");
