//! Why a store did not settle.

use std::sync::Arc;

use thiserror::Error;

/// Why a store has not settled charges. Whether they were taken all the same is not known if the answer
/// was late; otherwise they were not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No answer within the deadline.
    #[error("the store did not answer in time")]
    Late,
    /// There is no connection, or it broke.
    #[error("the store cannot be reached: {0}")]
    Unreachable(Arc<str>),
    /// The store has failed too often lately and is left alone for a while.
    #[error("the store has failed repeatedly and is left alone for a moment")]
    Open,
    /// Too many wait for it already.
    #[error("too many requests wait for the store")]
    Full,
    /// It answered with an error.
    #[error("the store refused: {0}")]
    Refused(Arc<str>),
    /// It answered something that is not ours.
    #[error("the store answered something unexpected; is another program writing to the same keys?")]
    Garbled,
}
