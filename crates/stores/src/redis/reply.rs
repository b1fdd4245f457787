//! A server's reply to a call of the script.

use redis::{ServerError, ServerErrorKind, Value};
use tidegate_core::Micros;

use crate::error::StoreError;

/// A server's reply to a call.
pub(super) enum Reply {
    /// The batch was settled. Holds the values that the script returned.
    Found(Vec<Value>),
    /// The boundaries of a calendar window do not contain the server's time, which is returned.
    Stale(Micros),
    /// The server does not know the script.
    NoScript,
    /// Another server holds the keys: all of them, or only those that have been moved already (`asking`).
    Redirected { address: String, asking: bool },
    /// The keys are being moved, and no server holds all of them.
    Moving,
    /// The call failed.
    Failed(StoreError),
}

impl Reply {
    pub(super) fn of(value: Value) -> Self {
        match value {
            Value::Array(found) => match &*found {
                [Value::Int(0), Value::Int(now)] => Self::Stale(Micros(now.unsigned_abs())),
                _ => Self::Found(found),
            },
            Value::ServerError(error) => Self::of_error(&error),
            _ => Self::Failed(StoreError::Garbled),
        }
    }

    fn of_error(error: &ServerError) -> Self {
        // `3999 127.0.0.1:6381`; a server that does not know its own name leaves out the host.
        let address = || error.details().and_then(|details| details.split(' ').nth(1)).unwrap_or_default();
        match error.kind() {
            Some(ServerErrorKind::NoScript) => Self::NoScript,
            Some(ServerErrorKind::Moved) => Self::Redirected { address: address().to_owned(), asking: false },
            Some(ServerErrorKind::Ask) => Self::Redirected { address: address().to_owned(), asking: true },
            Some(ServerErrorKind::TryAgain) => Self::Moving,
            _ => Self::Failed(refused(error)),
        }
    }
}

/// Converts a server's error to a [`StoreError`].
pub(super) fn refused(error: &ServerError) -> StoreError {
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
    StoreError::Refused(text.trim_end().into())
}
