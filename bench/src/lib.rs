//! Measures Tidegate: speed beside the crate `governor`, size, pauses, accuracy, the service beside
//! other servers, and the service on Redis.
//!
//! ```sh
//! cd bench                               # a workspace of its own: nobody compiles it to build or test the service
//! cargo run --release -- compare         # one study; --quick for a short run, --json for machines
//! cargo run --release -- report          # all of them, written to docs/benchmarks.md
//! cargo bench -p tidegate-benches --bench decisions   # criterion, for developers
//! ```
//!
//! # Layout
//!
//! - [`cli`]: the command line; `study/`: one file per study
//! - `study/service/`: the service beside others; [`constant`]: servers that allow every request
//! - `study/redis/`: the service on Redis; `study/bed/`: starts and drives the measured servers
//! - [`subject`], [`tenants`], [`stream`]: the measured limiters, and the requests to them
//! - [`heap`]: an allocator that counts bytes
//! - `finding`: the result of a study, as text, Markdown and JSON; `report`: all results as one page
//! - `plot/`: SVG charts; `progress`, `spread`, `machine`: helpers

#![expect(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "measurements are floats; nothing here decides a request"
)]

pub mod cli;
pub mod constant;
mod error;
mod finding;
pub mod heap;
mod machine;
mod plot;
mod progress;
mod report;
mod spread;
pub mod stream;
mod study;
pub mod subject;
pub mod tenants;
