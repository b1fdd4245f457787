//! A client for a Tidegate service, with a fallback for when the service does not respond.
//!
//! ```no_run
//! use tidegate::Request;
//! use tidegate_client::Client;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tidegate_client::BuildError> {
//! let client = Client::builder("http://localhost:8080").build()?;
//! let decision = client.check(&Request::new("api", [("user", "ann")])).await;
//! if !decision.allowed() {
//!     println!("{decision}"); // denied by user (minute): 0 of 100 left, retry after 12.4s
//! }
//! # Ok(()) }
//! ```
//!
//! A [`Client`] has the calls of [`tidegate::Limiter`], and returns the same [`tidegate::Decision`]. Checks made at
//! the same time are sent in one HTTP request. No call takes longer than the deadline. While the service is known to
//! be unavailable, no call waits at all: the [`Fallback`] decides at once.
//!
//! # Layout
//!
//! - [`client`]: the client; [`builder`]: its builder
//! - [`permit`], `reservation`: slots of concurrency limits, and costs that are known later
//! - `local`: local decisions while the service does not respond
//! - `request_body`, `response`: the JSON that is sent and received
//! - `batch`: sends checks made at the same time as one HTTP request
//! - `breaker`: decides when to retry a service that has failed
//! - `transport`, `tls`: HTTP over persistent connections, and the trusted certificates
//! - [`health`], [`error`]: the state of the service, and reasons why a call failed
//! - `scopes`: distinguishes the unnamed limiters of one application

mod batch;
mod breaker;
pub mod builder;
pub mod client;
pub mod error;
pub mod health;
mod local;
pub mod permit;
mod request_body;
mod reservation;
mod response;
mod scopes;
mod tls;
mod transport;

pub use builder::{BuildError, Builder, Fallback};
pub use client::Client;
pub use error::ClientError;
pub use health::Health;
pub use permit::{Acquired, Permit, PermitId};

/// Runs the programs in the documentation as tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../docs/client.md")]
    struct Client;
}
