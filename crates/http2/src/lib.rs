//! An HTTP/2 server for gRPC (RFC 9113), optimized for many small calls on few connections.
//!
//! A request whose message has arrived in full is handled where it is read: the response is appended to the output of
//! its connection, and all responses to one read are sent with one write. Such a request needs no task, channel or
//! lock. Slower requests are polled by the connection's own task.
//!
//! - [`frame`], [`hpack`]: parse and write frames and header blocks; also usable by clients
//! - [`Service`]: handles requests; [`Inbox`]: a request body that is streamed
//! - [`Connection`]: the protocol, without I/O
//! - [`Server`]: a connection on a socket
//! - [`MemoryBudget`]: a byte limit that all connections share
//! - [`Turn`]: fair scheduling of the connections of a thread

mod budget;
mod calm;
mod connection;
pub mod frame;
mod head;
pub mod hpack;
mod inbox;
mod reason;
mod server;
mod service;
mod streams;
mod tasks;
mod turns;
mod windows;

pub use self::budget::{MemoryBudget, MemoryClaim};
pub use self::connection::{Connection, Fault, Settings};
pub use self::inbox::{Inbox, Reset};
pub use self::reason::Reason;
pub use self::server::{Error, Server};
pub use self::service::{Answer, Later, Refusal, Service, Whole};
pub use self::turns::Turn;
