//! Laws of rendering, limiting and pacing, each stated by the name of its test.

#![expect(clippy::unwrap_used, reason = "a helper that finds nothing fails its test")]

mod client_ip;
mod denial_body;
mod headers;
mod hostile;
mod identity;
mod keys;
mod layer;
mod limits;
mod pacing;
mod pacing_runs;
mod retry;
#[path = "../../../client/tests/client_laws/stub.rs"]
#[expect(dead_code, reason = "the laws of clients use more of it")]
mod stub;
mod support;
mod vectors;
