//! Decisions as HTTP: headers and bodies, the same bytes everywhere.
//!
//! ```
//! use tidegate::{Domain, Limiter, Request, Rule, VirtualClock, per_minute};
//! use tidegate_middleware::{Headers, Renderer};
//!
//! let clock = VirtualClock::new();
//! let api = Domain::new("api").rule(Rule::by("api_key").limit(per_minute(100).burst(20).named("steady")));
//! let limiter = Limiter::builder().domain(api).clock(clock).build()?;
//! let request = Request::new("api", [("api_key", "ann")]);
//! let decision = limiter.check_now(&request);
//!
//! let renderer = Renderer::new(Headers::default());
//! let mut lines = Vec::new();
//! renderer.headers(&request, &decision, tidegate::Micros(1_700_000_000_000_000), |name, value| {
//!     lines.push(format!("{name}: {value}"));
//! });
//! assert_eq!(lines[0], r#"ratelimit-policy: "api_key:steady";q=100;w=60"#);
//! assert_eq!(lines[1], r#"ratelimit: "api_key:steady";r=19;t=1"#);
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! # Layout
//!
//! - [`renderer`]: what a front end holds; which headers a decision has
//! - [`names`]: the headers' names
//! - `policy`: a limit as items of `RateLimit-Policy` and `RateLimit`, and the names of policies
//! - `retry`: when to come back, with a jitter that every node agrees on
//! - `body`: the JSON of an answer
//!
//! What is rendered is fixed by `vectors/rendering.json`; the README of this crate says how to read it.

mod body;
pub mod client_ip;
pub mod names;
mod policy;
pub mod renderer;
mod retry;
mod warnings;

pub use client_ip::ClientIp;
pub use renderer::{Headers, Renderer};
