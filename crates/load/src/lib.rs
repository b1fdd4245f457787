//! A load generator for rate limiters: one thread, its own framing, latencies without coordinated omission.
//!
//! It speaks gRPC over cleartext HTTP/2 (prior knowledge) and HTTP/1.1 with keep-alive, over TCP or a Unix
//! socket. It is light enough that one core saturates a server that needs several times its CPU time per
//! request. It prints nothing: progress goes to a callback, the results to a [`Report`].
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use std::time::Duration;
//! use tidegate_load::payload::EnvoyRateLimit;
//! use tidegate_load::{Keys, Length, Pace, Plan, Status, run};
//!
//! let plan = Plan {
//!     connections: 4,
//!     streams: 32,
//!     pace: Pace::Open { per_second: 50_000.0, poisson: true },
//!     keys: Keys::Zipf { n: 10_000, exponent: 1.0 },
//!     warm_up: Duration::from_secs(1),
//!     length: Length::Time(Duration::from_secs(10)),
//!     ..Plan::new("127.0.0.1:8081".parse()?)
//! };
//! let mut payload = EnvoyRateLimit::new("api", "user");
//! let report = run(&plan, &mut payload, &mut |status: Status| {
//!     eprintln!("{:.0} %", status.done * 100.0);
//!     ControlFlow::Continue(())
//! })?;
//! println!("{:.0} per second, p99 {} µs", report.per_second, report.latency.p99_us);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the figures mean
//!
//! - A closed loop sends the next call of a stream when the response to the last one has arrived. It finds
//!   the maximum throughput of a server. An open loop sends calls at scheduled times and measures latency
//!   from these times: a call that finds every stream busy has been waiting since it was due. So a server
//!   that stalls cannot hide the calls that it kept from being sent (no coordinated omission).
//! - If [`Generator::is_limit`] returns true, the rate was limited by this generator, not by the server.
//! - Calls that failed are counted in [`Report::errors`] and have no latency.
//!
//! # Layout
//!
//! - `plan`: the parameters of a run; [`payload`]: the requests, and how responses are interpreted
//! - `engine`: the event loop; `lane`: successive connections that replace each other; `conn`, `socket`: a
//!   single connection
//! - `wire/`: the protocols as state machines over bytes, without sockets
//! - `traffic`: the calls that are due; `draw`, `schedule`: their keys and times
//! - `dispatcher`: hands out calls and counts their results; `tally`, `usage`, [`Report`]: measurements
//! - `clock`, `timer`, `progress`, `error`: utilities

#![expect(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "measurements are floats; nothing here decides a request"
)]

mod clock;
mod conn;
mod dispatcher;
mod draw;
mod engine;
mod error;
mod lane;
pub mod payload;
mod plan;
mod progress;
mod report;
mod schedule;
mod socket;
mod tally;
mod timer;
mod traffic;
mod usage;
mod wire;

pub use engine::run;
pub use error::{Fault, LoadError, PlanError};
pub use plan::{Endpoint, Keys, Length, Pace, Plan};
pub use progress::{Phase, Progress, Status};
pub use report::{Generator, Latency, Process, Report};
