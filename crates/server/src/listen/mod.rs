//! Listeners and connections. Sockets are bound once; an acceptor hands each connection to one of the workers.
//!
//! Envoy opens few connections and sends many requests over each, so threads that share a port could leave most of
//! the connections to one core. Instead the acceptor hands each connection to the worker with the fewest. A worker is
//! a thread with its own runtime, so a request needs nothing from other threads. The admin listener has its own
//! worker, because its requests may take long.
//!
//! - [`socket`]: the socket of a listener
//! - [`stream`]: the byte stream of a connection, and its activity
//! - [`tls`]: certificates, reloaded when they change
//! - [`acceptor`]: accepts connections and hands them to workers
//! - [`listener`]: what a listener serves, and its limits
//! - [`capacity`]: how many connections each listener may have; [`connections`]: the open connections of a listener
//! - [`worker`]: a thread that serves connections
//! - [`connection`]: serves one connection
//! - [`response`]: accounts for the memory of responses until they are sent
//! - [`watchdog`]: decides when to close a connection

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
