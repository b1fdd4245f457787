//! The laws of the store that many nodes share, on real servers.
//!
//! - [`world`]: the servers the conformance suite is stamped over
//! - [`batches`]: requests that are settled by one call of the script
//! - [`sharing`]: one limit for all nodes, expiry, scripts, remembered denials, shards
//! - [`shapes`]: replies that the script never gives, and keys that are not counters
//! - [`idle`]: servers that fail while nobody asks them
//! - [`failover`]: a primary that is replaced while it is well
//! - [`access`]: passwords, users, TLS, the check-up
//! - [`url`]: what addresses may be, and what is said of bad ones

mod access;
mod batches;
mod failover;
mod idle;
mod records;
mod shapes;
mod sharing;
mod url;
pub(crate) mod world;
