//! Reasons a call to the service can fail.

use std::time::Duration;

use thiserror::Error;

/// Reasons a call to the service can fail.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// Nothing was sent: the service has failed recently, and is only probed by single requests until it responds.
    #[error("the service has failed recently; it is retried in a moment")]
    Away,
    /// No connection could be opened, or the connection broke.
    #[error("the service cannot be reached: {0}; check its address and whether it runs")]
    Unreachable(String),
    /// No response arrived within this deadline.
    #[error("the service did not respond within the deadline of {0:?}")]
    Timeout(Duration),
    /// The service reported an error of its own.
    #[error("the service responded with status {status}: {detail}")]
    Server {
        /// The HTTP status, 500 or above.
        status: u16,
        /// The reason given by the service.
        detail: String,
    },
    /// The service rejected the request because of a mistake in the application.
    #[error("the service rejects the request with status {status}: {detail}")]
    Rejected {
        /// The HTTP status, from 400 to 499.
        status: u16,
        /// The reason given by the service, and what to do about it.
        detail: String,
    },
    /// The response is not a valid response of a Tidegate service.
    #[error(
        "the service sent an invalid response: {0}; check that the address is that of a Tidegate service"
    )]
    InvalidResponse(String),
}

impl From<serde_json::Error> for ClientError {
    fn from(error: serde_json::Error) -> Self {
        Self::InvalidResponse(error.to_string())
    }
}
