//! Which program this is.

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from, shortened; `unknown` in debug builds and where nobody knows it.
pub const COMMIT: &str = env!("TIDEGATE_BUILD_COMMIT");

/// `0.1.0 (commit 0123456789ab)`.
pub const VERSION_AND_COMMIT: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("TIDEGATE_BUILD_COMMIT"), ")");
