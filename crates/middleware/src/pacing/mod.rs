//! Clients that pace themselves: they learn the limits in each response, delay requests accordingly, and retry denied
//! requests if that is safe.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use bytes::Bytes;
//! use http_body_util::Full;
//! use hyper_util::client::legacy::Client;
//! use hyper_util::rt::TokioExecutor;
//! use tidegate_middleware::PacingLayer;
//! use tower::{Layer, ServiceExt};
//!
//! let pacing = PacingLayer::new().max_retries(5);
//! let client = pacing.layer(Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>());
//! let request = http::Request::get("http://api.example/users").body(Full::default())?;
//! let response = client.oneshot(request).await?;
//! println!("{:?}", pacing.learned("api.example"));
//! # Ok(()) }
//! ```
//!
//! - [`learn`], `moments`: parse the headers, and compute waits
//! - `lane`: the known limits of a host, and when the next request may start
//! - `pacer`: all hosts, and the order of requests to each
//! - `retry`: what is retried, and when
//! - `layer`, `service`: the Tower layer and its service

mod lane;
mod layer;
pub mod learn;
mod moments;
mod pacer;
mod retry;
mod service;

pub use layer::PacingLayer;
pub use learn::{Learned, Policy, learn};
pub use retry::Replay;
pub use service::Paced;
