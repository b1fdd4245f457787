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
//! - `study/service/`: the service beside others; [`constant`]: servers that decide nothing
//! - `study/redis/`: the service on Redis; `study/bed/`: what servers are measured on
//! - [`subject`], [`tenants`], [`stream`]: what is measured, and the requests it is asked
//! - [`heap`]: an allocator that counts
//! - `finding`: what a study found, as text, Markdown and JSON; `report`: all of it as one page
//! - `plot/`: SVG charts; `progress`, `spread`, `machine`: the small things

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
