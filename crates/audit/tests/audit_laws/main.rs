//! Laws of the audit trail, each stated by the name of its test.

mod buffer;
mod chain;
mod crash;
mod disk;
mod folder;
mod reading;
mod sampling;
mod support;
