//! Connections: bound once, accepted in one place, served on one of the workers.
//!
//! Envoy opens few connections and sends much over each, so sharing a port between threads would
//! pile them onto one core. Instead the acceptor hands each connection to the worker that has least
//! to do. A worker is a thread with a runtime of its own: nothing a request needs crosses threads.
//! Administrators have a worker to themselves, for what they ask may take a while.
//!
//! - [`socket`]: where connections come from
//! - [`stream`]: a connection's bytes, and what the watchdog sees of them
//! - [`tls`]: certificates, reloaded when they change
//! - [`acceptor`]: from socket to worker, within the bound on connections
//! - [`capacity`]: how many connections each listener may have; [`guests`]: those it has
//! - [`worker`]: a thread that serves connections
//! - [`connection`]: one connection from its first byte to its last
//! - [`watchdog`]: when its time has come

pub mod acceptor;
pub mod capacity;
pub mod connection;
pub mod guests;
pub mod socket;
pub mod stream;
pub mod tls;
pub mod watchdog;
pub mod worker;
