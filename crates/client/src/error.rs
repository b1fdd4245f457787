//! Reasons a call to the service can fail.

use std::time::Duration;

use thiserror::Error;

/// Reasons a call to the service can fail.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// Nothing was sent: the service has just failed, and single requests find out when it is back.
    #[error("the service is away; it is tried again in a moment")]
    Away,
    /// No connection could be opened, or one broke.
    #[error("the service cannot be reached: {0}; check its address and whether it runs")]
    Unreachable(String),
    /// No response came within the deadline.
    #[error("the service did not respond within the deadline of {0:?}")]
    Timeout(Duration),
    /// The service reports an error of its own.
    #[error("the service responded with status {status}: {detail}")]
    Server {
        /// The status, 500 or above.
        status: u16,
        /// The reason that the service gives.
        detail: String,
    },
    /// The service rejects the request, which is a mistake in the application.
    #[error("the service rejects the request with status {status}: {detail}")]
    Rejected {
        /// The status, from 400 to 499.
        status: u16,
        /// The reason that the service gives, and what to do about it.
        detail: String,
    },
    /// The response is not one of a Tidegate service.
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
