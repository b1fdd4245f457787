//! The laws of the store that many nodes share, on real servers.
//!
//! - [`world`]: the servers the conformance suite is stamped over

pub(crate) mod world;
