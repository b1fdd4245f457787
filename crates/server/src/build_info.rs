//! The version and the commit of the program.

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The abbreviated commit that it was built from; `unknown` in debug builds, and if it could not be found.
pub const COMMIT: &str = env!("TIDEGATE_BUILD_COMMIT");

/// `0.1.0 (commit 0123456789ab)`.
pub const VERSION_AND_COMMIT: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("TIDEGATE_BUILD_COMMIT"), ")");
