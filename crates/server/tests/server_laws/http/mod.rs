//! The HTTP API of the real binary.

#![expect(clippy::unwrap_used, reason = "clippy does not know the helpers of tests for tests")]

mod batch;
mod check;
mod conformance;
mod connection;
mod envoy;
mod forward_auth;
mod identity;
mod inline;
mod permits;
mod refund;
mod refused;
mod reservations;
mod reset;
mod state;
mod support;
mod virtual_time;
