//! Listeners and connections: bound once, accepted in one place, served by one of the workers.
//!
//! Envoy opens few connections and sends many requests over each, so threads that share a port would leave most of them
//! to one core. Instead the acceptor hands each connection to the worker with the fewest. A worker is a thread with a
//! runtime of its own: nothing that a request needs crosses threads. The admin listener has its own worker, because its
//! requests may take long.
//!
//! - [`socket`]: the socket of a listener
//! - [`stream`]: the bytes of a connection, and its activity
//! - [`tls`]: certificates, reloaded when they change
//! - [`acceptor`]: from socket to worker, within the bound on connections
//! - [`listener`]: what a listener serves, and within which bounds
//! - [`capacity`]: how many connections each listener may have; [`connections`]: those it has
//! - [`worker`]: a thread that serves connections
//! - [`connection`]: one connection from its first byte to its last
//! - [`response`]: the memory of responses until they are read
//! - [`watchdog`]: when to end it

pub mod acceptor;
pub mod capacity;
pub mod connection;
pub mod connections;
pub mod listener;
pub mod response;
pub mod socket;
pub mod stream;
pub mod tls;
pub mod watchdog;
pub mod worker;
