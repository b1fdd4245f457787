//! For tests only: oracles, random inputs and real servers that the product is checked against.
//!
//! # Layout
//!
//! - [`cases`](cases()): on how many cases property tests run, and how they keep what broke them
//! - [`floods`]: what hostile clients send over HTTP/2
//! - [`oracle`]: every algorithm once more, slow, exact and written from its meaning
//! - `processor_waits`, with the feature `servers`: how long processes had no processor, so that nobody is blamed for it
//! - [`promise`]: what each algorithm promises, checked over a history by brute force
//! - `redis` (feature `servers`): real Redis and Valkey servers, alone, with Sentinel or as a cluster, and a
//!   proxy that injects network faults
//! - `postgres` (feature `servers`): real `PostgreSQL` servers, with standby servers and a pooler
//! - [`schedule`]: random limits, and random schedules of charges, refunds and clock steps
//! - [`vector`]: the golden vectors of all implementations

mod cases;
pub mod floods;
pub mod oracle;
#[cfg(feature = "servers")]
pub mod postgres;
#[cfg(feature = "servers")]
pub mod processor_waits;
pub mod promise;
#[cfg(feature = "servers")]
pub mod redis;
pub mod schedule;
pub mod vector;

pub use cases::cases;
