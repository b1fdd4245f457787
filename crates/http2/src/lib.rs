//! HTTP/2 for gRPC, from the server's side (RFC 9113), made for many small calls on few connections.
//!
//! A request whose message has come whole is answered where it is read: the answer goes into the
//! output of its connection, and all that one read has brought is answered by one write. There is no
//! task, no channel and no lock for such a request. What takes longer is polled by the task of the
//! connection itself.
//!
//! - [`frame`], [`hpack`]: frames and header blocks from and to bytes; clients use them, too
//! - [`Service`]: who answers; [`Inbox`]: the body of a request that is not waited for
//! - [`Connection`]: the protocol, without input and output
//! - [`Server`]: a connection on a socket
//! - [`MemoryBudget`]: bytes that all connections share
//! - [`Turn`]: whose turn it is among the connections of a thread

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
