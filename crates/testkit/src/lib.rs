//! For tests only: oracles, random inputs and real servers that the product is checked against.
//!
//! # Layout
//!
//! - [`cases`](cases()): the number of cases of property tests, and where failing inputs are kept
//! - [`floods`]: attacks over HTTP/2
//! - [`oracle`]: a second implementation of every algorithm, slow, exact and written from the definition
//! - `processor_waits` (feature `servers`): how long processes waited for a CPU, so that tests can subtract it
//! - [`promise`]: what each algorithm guarantees, checked over a history by brute force
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
