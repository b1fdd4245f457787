//! Laws of the load generator, against real servers in this process.
//!
//! - `server`: a rate limiter on hyper whose responses a test chooses; `peer`: a server that sends raw frames
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

/// Runs a plan, ignoring its progress.
fn drive(plan: &Plan, payload: &mut dyn Payload) -> Result<Report, LoadError> {
    run(plan, payload, &mut |_: Status| ControlFlow::Continue(()))
}

/// Returns a plan with this number of connections, streams and requests.
fn plan_of(endpoint: &tidegate_load::Endpoint, connections: usize, streams: usize, requests: u64) -> Plan {
    Plan { connections, streams, length: Length::Requests(requests), ..Plan::new(endpoint.clone()) }
}
