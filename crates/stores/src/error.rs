//! Errors of stores.

use std::sync::Arc;

use thiserror::Error;

/// Reasons a store did not settle charges. Once charges were sent, they may have been taken in spite of the error:
/// see [`StoreError::nothing_sent`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The store sent no reply within the deadline.
    #[error("the store did not answer in time")]
    Late,
    /// There is no connection to the store; nothing was sent.
    #[error("the store cannot be reached: {0}")]
    Unreachable(Arc<str>),
    /// The connection broke before the reply arrived.
    #[error("the connection to the store broke before it answered: {0}")]
    Broken(Arc<str>),
    /// The store has failed repeatedly, so nothing is sent to it for a while.
    #[error("the store has failed repeatedly and is left alone for a moment")]
    Open,
    /// Too many requests wait for the store already.
    #[error("too many requests wait for the store")]
    Full,
    /// The store replied with an error.
    #[error("the store refused: {0}")]
    Refused(Arc<str>),
    /// The store sent a reply that the script never returns.
    #[error("the store sent a reply of the wrong shape; is it Redis or Valkey, and is nothing in between?")]
    Garbled,
    /// One of our keys holds data that another program has written. Nothing was charged.
    #[error("a key of the store holds something that is not a counter; does another program use its prefix?")]
    Foreign,
    /// Part of a cost was to be taken from slots or from a queue. Nothing was charged.
    #[error("slots and queues cannot be taken in part; charge the whole cost instead")]
    Indivisible,
}

impl StoreError {
    /// Returns whether the store is known to have done nothing, because nothing reached it or it said so. Otherwise
    /// it may have done the work: a reply that is late, lost or invalid can belong to charges that were taken.
    pub fn nothing_sent(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Open | Self::Full | Self::Foreign | Self::Indivisible => true,
            Self::Late | Self::Broken(_) | Self::Refused(_) | Self::Garbled => false,
        }
    }
}
