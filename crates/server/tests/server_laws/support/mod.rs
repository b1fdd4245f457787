//! What many tests need: the real binary with rules of their own, and clients for it.

pub(crate) mod clients;
pub(crate) mod document;
pub(crate) mod envoy;
pub(crate) mod grpc;
pub(crate) mod ports;
pub(crate) mod service;

/// The time by the machine's clock, which the services of tests go by as well.
#[expect(clippy::disallowed_methods, reason = "services live in real time")]
pub(crate) fn wall_time() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
