//! Clients that pace themselves: they learn the limits in each response, let the next request wait for its turn,
//! and try denied requests again if that is safe.
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
//! - [`learn`], `moments`: from headers to what is known, and from that to a wait
//! - `lane`: what is known of a host, and when the next request may start
//! - `pacer`: all hosts, and whose turn it is
//! - `retry`: what is tried again, and when
//! - `layer`, `service`: as Tower has them

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
