//! The requests of a run, and how their responses are interpreted.
//!
//! The generator only moves bytes; a [`Payload`] interprets them. Implementations:
//!
//! - [`EnvoyRateLimit`]: Envoy's rate limit service over gRPC
//! - [`Check`]: Tidegate's `POST /v1/check`
//!
//! Both send one descriptor with one entry, or several [`Descriptors`]. Others:
//!
//! - [`Throttlecrab`]: the gRPC of `throttlecrab-server`
//! - [`Get`]: a plain GET with the key in the query, as for nginx `limit_req`

mod check;
mod descriptors;
mod envoy;
mod get;
mod key;
mod throttlecrab;

pub use check::Check;
pub use descriptors::{Descriptors, EntryValue, THREE_DESCRIPTORS};
pub use envoy::EnvoyRateLimit;
pub use get::Get;
pub use key::write_key;
pub use throttlecrab::Throttlecrab;

/// Builds the requests of a run, and interprets the responses.
pub trait Payload {
    /// Returns the protocol of the requests. Called once.
    fn speaks(&self) -> Speaks;

    /// Appends the request for a key: for gRPC only the message, for HTTP/1.1 the complete request.
    fn request(&mut self, key: u64, out: &mut Vec<u8>);

    /// Returns the decision in a response. For gRPC this is called only for responses with status 0.
    fn judge(&mut self, answer: Answer<'_>) -> Decision;
}

/// The protocol of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Unary gRPC calls over cleartext HTTP/2.
    Grpc {
        /// `/package.Service/Method`.
        path: String,
    },
    /// HTTP/1.1 with keep-alive.
    Http1,
}

/// The response to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The HTTP status; always 200 for gRPC.
    pub status: u16,
    /// The body; for gRPC the message.
    pub body: &'a [u8],
}

/// The decision in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allowed,
    /// The request is denied.
    Denied,
    /// The response is invalid, for this reason.
    Error(String),
}

/// Returns the decision for an HTTP status: 200 allows, 429 denies, all others are errors.
fn by_status(status: u16) -> Decision {
    match status {
        200 => Decision::Allowed,
        429 => Decision::Denied,
        other => Decision::Error(format!("http status {other}")),
    }
}
