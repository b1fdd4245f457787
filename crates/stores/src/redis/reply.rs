//! What a server answers to a call of the script.

use redis::{ServerError, ServerErrorKind, Value};
use tidegate_core::Micros;

use crate::error::StoreError;

/// What became of a call.
pub(super) enum Reply {
    /// It was settled; this is what the script says.
    Found(Vec<Value>),
    /// The boundaries of a calendar do not contain the server's time.
    Stale(Micros),
    /// The server does not know the script.
    NoScript,
    /// Another server has the keys: for good, or only what is not here any more (`asking`).
    Elsewhere { address: String, asking: bool },
    /// The keys are on the move.
    Moving,
    /// It failed.
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
        // `3999 127.0.0.1:6381`; a server that does not know its own name leaves the host away.
        let address = || error.details().and_then(|details| details.split(' ').nth(1)).unwrap_or_default();
        match error.kind() {
            Some(ServerErrorKind::NoScript) => Self::NoScript,
            Some(ServerErrorKind::Moved) => Self::Elsewhere { address: address().to_owned(), asking: false },
            Some(ServerErrorKind::Ask) => Self::Elsewhere { address: address().to_owned(), asking: true },
            Some(ServerErrorKind::TryAgain) => Self::Moving,
            _ => Self::Failed(refused(error)),
        }
    }
}

/// A server's error in our words.
pub(super) fn refused(error: &ServerError) -> StoreError {
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
    StoreError::Refused(text.trim_end().into())
}
