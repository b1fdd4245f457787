//! Laws of the load generator, against real servers in this process.
//!
//! - `server`: hyper, as a rate limiter with opinions; `peer`: a server that speaks raw frames
//! - one file per subject

#![expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]

mod counts;
mod failures;
mod frames;
mod going_away;
mod keys;
mod open_loop;
mod peer;
mod server;

use std::ops::ControlFlow;

use tidegate_load::payload::Payload;
use tidegate_load::{Length, LoadError, Plan, Report, Status, run};

/// Carries out a plan without looking at its progress.
fn drive(plan: &Plan, payload: &mut dyn Payload) -> Result<Report, LoadError> {
    run(plan, payload, &mut |_: Status| ControlFlow::Continue(()))
}

/// So many requests over so many connections and streams.
fn plan_of(endpoint: &tidegate_load::Endpoint, connections: usize, streams: usize, requests: u64) -> Plan {
    Plan { connections, streams, length: Length::Requests(requests), ..Plan::new(endpoint.clone()) }
}
