//! Real Redis and Valkey servers for tests. They listen on free ports of 127.0.0.1 and keep their files in
//! temporary folders. A server ends when its value is dropped, also if the test fails or is killed.
//!
//! ```no_run
//! use tidegate_testkit::redis::Setup;
//!
//! let server = Setup::redis().set("maxmemory-policy", "allkeys-lru").start();
//! server.command(&["SET", "key", "value"]);
//! server.kill();
//! server.restart();
//! assert!(server.command(&["GET", "key"]).is_nil());
//! ```
//!
//! # Layout
//!
//! - [`Setup`]: the program and its settings; starts one server or many
//! - [`RedisServer`]: a single server: its URL, commands, [`kill`](RedisServer::kill),
//!   [`pause`](RedisServer::pause), its clock
//! - [`SentinelTrio`], [`Cluster`]: several servers with failover
//! - [`FaultProxy`]: a proxy that injects network faults
//! - [`Impostor`]: a server whose replies the test chooses
//! - [`Client`], [`Reply`]: the Redis protocol, as far as tests need it
//! - [`until`]: waits for a condition in another process
//!
//! Every call blocks, and panics if there is no reply in time or if a program is missing: a test is never
//! skipped for lack of a server. Asynchronous tests must call from a thread that may block.

pub(crate) mod certificates;
mod client;
mod clock;
mod cluster;
mod fault_proxy;
mod impostor;
mod migration;
mod nodes;
mod ports;
pub(crate) mod process;
mod program;
mod sentinel;
mod server;
mod setup;
mod wait;

pub use client::{Client, Reply};
pub use cluster::Cluster;
pub use fault_proxy::{Fault, FaultProxy};
pub use impostor::Impostor;
pub use ports::free as free_port;
pub use program::{Program, faketime};
pub use sentinel::SentinelTrio;
pub use server::{RedisServer, sharded_url};
pub use setup::Setup;
pub use wait::{PATIENCE, until};
