//! Hostile clients against a service of our own on the loopback: what they tried, what they got, and what a good
//! client noticed of it. Every attack is bounded in count and time.
//!
//! These tests are the short form. `make attack` runs the long one (`TIDEGATE_ATTACK=full`) and prints the table.
//!
//! - [`arena`]: the service, the good client, and the table
//! - [`connections`]: open files, slow heads, slow and dripping bodies
//! - [`counters`]: reservations, limits of requests, eviction
//! - [`floods`]: frames over HTTP/2

mod arena;
mod connections;
mod counters;
mod floods;
