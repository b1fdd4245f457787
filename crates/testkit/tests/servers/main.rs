//! Laws of the kit's servers, each stated by the name of its test.

mod cluster;
mod fault_proxy;
mod postgres;
mod sentinel;
mod single;
