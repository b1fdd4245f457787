//! A load generator for rate limiters: one thread, raw frames, honest latencies.
//!
//! It speaks gRPC over cleartext HTTP/2 (prior knowledge) and HTTP/1.1 keep-alive, over TCP or a
//! Unix socket, light enough that one core of it saturates a server that needs several times its
//! CPU per request. It prints nothing: progress goes to a callback, findings into a [`Report`].
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
//! - A closed loop sends the next call of a stream when the answer to the last one came; it finds
//!   the most a server can do. An open loop sends at scheduled times and measures from them: a call
//!   that found every stream busy has been waiting since its time, so a server that stalls cannot
//!   hide the calls it kept from being sent (no coordinated omission).
//! - If [`Generator::is_limit`] holds, the rate is that of this generator, not that of the server.
//! - Calls that failed are counted in [`Report::errors`] and have no latency.
//!
//! # Layout
//!
//! - `plan`: what to do; [`payload`]: what is asked and how answers are judged
//! - `engine`: the loop; `lane`: one connection after another in one place; `conn`, `socket`: one of them
//! - `wire/`: the protocols as state machines over bytes, which know no sockets
//! - `traffic`: which call is due; `draw`, `schedule`: its key and its time
//! - `desk`: where calls are settled; `tally`, `usage`, [`Report`]: what was measured
//! - `clock`, `timer`, `progress`, `error`: the small things

#![expect(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "measurements are floats; nothing here decides a request"
)]

mod clock;
mod conn;
mod desk;
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
