//! Rate limiting for HTTP: a Tower layer and Axum extractors that limit requests, clients that pace themselves, and
//! the renderer of headers and bodies that every front end shares.
//!
//! ```
//! use axum::{Router, routing::get};
//! use tidegate::{Domain, Limiter};
//! use tidegate_middleware::RateLimitLayer;
//!
//! let limiter = Limiter::builder().domain(Domain::new("apps").inline_limits(1_000)).build()?;
//! let layer = RateLimitLayer::new(limiter).limits("10/minute;200/hour")?;
//! let app: Router = Router::new().route("/search", get(|| async { "found" })).layer(layer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rendering without the layer:
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
//! - [`layer`], [`service`], `future`, [`response_body`]: the Tower layer, its service and its futures
//! - [`decider`]: what makes the decisions, a limiter in this process or a client of a service
//! - `settings`: the settings of a layer, and how it decides by them
//! - `renewed_permit`: permits that are held until a response has ended
//! - `request_head`, [`key`], `owned_request`, [`limits`]: from an HTTP request to a request of the limiter
//! - [`client_ip`]: the address of the client behind proxies
//! - [`reject`], [`limited`]: the response to a denial, and the extractors for handlers
//! - [`pacing`]: clients that pace themselves
//! - `warnings`: warnings about settings that are valid but probably mistakes
//! - [`renderer`]: renders decisions; selects which headers a decision has
//! - [`names`]: the names of the headers
//! - `policy`: the items of `RateLimit-Policy` and `RateLimit`, and the names of policies
//! - `retry`: `Retry-After`, with a jitter that is the same on every node
//! - `body`: the JSON of a response; `denial_body`: a custom body for denials
//!
//! `vectors/rendering.json` defines the rendered bytes; the README of this crate describes the format.

mod body;
pub mod client_ip;
pub mod decider;
mod denial_body;
mod future;
pub mod key;
pub mod layer;
pub mod limited;
pub mod limits;
pub mod names;
mod owned_request;
pub mod pacing;
mod policy;
pub mod reject;
pub mod renderer;
mod renewed_permit;
mod request_head;
pub mod response_body;
mod retry;
pub mod service;
mod settings;
mod warnings;

pub use client_ip::{ClientAddress, ClientIp, ForwardingHeader};
pub use decider::Decider;
pub use denial_body::{DenialBody, DenialBodyError};
pub use future::ResponseFuture;
pub use layer::{LayerError, RateLimitLayer};
pub use limited::{Denied, Estimate, Limited, RateLimited};
pub use owned_request::Descriptors;
pub use pacing::PacingLayer;
pub use renderer::{Headers, Renderer};
pub use request_head::{PeerAddr, RequestHead};
pub use service::RateLimit;
pub use settings::WhenStoreFails;

/// Runs the programs in the documentation as tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../docs/middleware.md")]
    struct Middleware;
}
