//! The tests of the servers in this crate.

mod cluster;
mod fault_proxy;
mod postgres;
mod sentinel;
mod single;
