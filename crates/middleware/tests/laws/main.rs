//! Laws of rendering, each stated by the name of its test.

#![expect(clippy::unwrap_used, reason = "a helper that finds nothing fails its test")]

mod headers;
mod hostile;
mod retry;
mod support;
mod vectors;
