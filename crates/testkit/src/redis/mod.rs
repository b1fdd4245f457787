//! Real servers for tests: started on free ports of 127.0.0.1 in temporary folders, and ended with the value
//! that stands for them, be the test passed, failed or itself killed.
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
//! - [`Setup`]: which program, with which settings; starts a server or many
//! - [`RedisServer`]: one of them: its URL, commands, [`kill`](RedisServer::kill),
//!   [`pause`](RedisServer::pause), its clock
//! - [`SentinelTrio`], [`Cluster`]: many of them that watch each other
//! - [`FaultProxy`]: what a network does to connections
//! - [`Impostor`]: a server that answers what it likes
//! - [`Client`], [`Reply`]: the protocol, as far as tests need it
//! - [`until`]: waiting for what happens in another process
//!
//! Every call blocks, and panics if it is not answered in time or if a program is missing: there is no test
//! without its server. Asynchronous tests call from a thread that may block.

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
