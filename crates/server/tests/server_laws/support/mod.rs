//! What many tests need: the real binary with rules of their own, and clients for it.

pub(crate) mod clients;
pub(crate) mod document;
pub(crate) mod envoy;
pub(crate) mod grpc;
pub(crate) mod ports;
pub(crate) mod service;
