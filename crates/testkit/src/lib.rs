//! For tests only: what the fast code is held against.
//!
//! # Layout
//!
//! - [`floods`]: what hostile clients send over HTTP/2
//! - [`oracle`]: every algorithm once more, slow, exact and written from its meaning
//! - [`promise`]: what each algorithm promises, checked over a history by brute force
//! - `redis`, with the feature `servers`: real servers in several shapes, and faults to put them through
//! - `postgres`, with the same feature: the same for `PostgreSQL`, with a standby to fail over to
//! - [`schedule`]: random limits, and random schedules of charges, refunds and clock steps
//! - [`vector`]: the golden vectors that all implementations share

pub mod floods;
pub mod oracle;
#[cfg(feature = "servers")]
pub mod postgres;
pub mod promise;
#[cfg(feature = "servers")]
pub mod redis;
pub mod schedule;
pub mod vector;
