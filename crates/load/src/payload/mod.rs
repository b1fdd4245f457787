//! What is asked, and how answers are judged.
//!
//! The generator moves bytes; a [`Payload`] knows what they mean. Ready ones:
//!
//! - [`EnvoyRateLimit`]: Envoy's rate limit service over gRPC
//! - [`Check`]: Tidegate's `POST /v1/check`
//!
//! Both ask with one descriptor of one entry, or with several [`Descriptors`]. Others:
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

/// The requests of a run, and the judge of their answers.
pub trait Payload {
    /// The protocol the requests are for; asked once.
    fn speaks(&self) -> Speaks;

    /// Appends the request for a key: over gRPC the message alone, over HTTP/1.1 the whole request
    /// as it goes on the wire.
    fn request(&mut self, key: u64, out: &mut Vec<u8>);

    /// Says what an answer decided. Over gRPC only answers with the status 0 come here.
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

/// An answer to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The HTTP status, always 200 over gRPC.
    pub status: u16,
    /// The body, over gRPC the message.
    pub body: &'a [u8],
}

/// What an answer decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request may pass.
    Allowed,
    /// The request may not pass.
    Denied,
    /// Neither: what was wrong with the answer.
    Error(String),
}

/// By HTTP status: 200 allows, 429 denies, the rest are errors.
fn by_status(status: u16) -> Decision {
    match status {
        200 => Decision::Allowed,
        429 => Decision::Denied,
        other => Decision::Error(format!("http status {other}")),
    }
}
