//! Asks a Tidegate service for decisions, with a fallback while it does not respond.
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
//! A [`Client`] has the calls of [`tidegate::Limiter`], and its decisions are the same [`tidegate::Decision`].
//! Checks that are made at the same time go in one HTTP request. No call takes longer than the deadline, and
//! while the service is known to be away no call waits at all: then the [`Fallback`] decides.
//!
//! # Layout
//!
//! - [`client`]: what an application holds; [`builder`] sets it up
//! - [`permit`], `reservation`: slots of concurrency limits, and costs that are known later
//! - `local`: decisions of this process while the service does not respond
//! - `request_body`, `response`: the JSON that is sent and received
//! - `batch`: checks of one moment as one HTTP request
//! - `breaker`: when to try a service again that has failed
//! - `transport`, `tls`: HTTP over kept connections, and which certificates are trusted
//! - [`health`], [`error`]: how well the service does, and why a call failed
//! - `scopes`: telling unnamed limiters of one application apart

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

/// The programs in the documentation, run as tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../docs/client.md")]
    struct Client;
}
