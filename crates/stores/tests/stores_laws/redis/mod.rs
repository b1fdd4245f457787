//! The laws of the store that many nodes share, on real servers.
//!
//! - [`world`]: the servers the conformance suite is stamped over
//! - [`sharing`]: one limit for all nodes, expiry, scripts, remembered denials, shards
//! - [`access`]: passwords, users, TLS, the check-up
//! - [`url`]: what addresses may be, and what is said of bad ones

mod access;
mod records;
mod sharing;
mod url;
pub(crate) mod world;
