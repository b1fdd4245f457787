//! Why a store did not settle.

use std::sync::Arc;

use thiserror::Error;

/// Why a store has not settled charges. Whether they were taken all the same is not known once they were
/// sent: see [`StoreError::nothing_sent`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No answer within the deadline.
    #[error("the store did not answer in time")]
    Late,
    /// There is no connection; nothing was sent.
    #[error("the store cannot be reached: {0}")]
    Unreachable(Arc<str>),
    /// The connection broke before the answer was there.
    #[error("the connection to the store broke before it answered: {0}")]
    Broken(Arc<str>),
    /// The store has failed too often lately and is left alone for a while.
    #[error("the store has failed repeatedly and is left alone for a moment")]
    Open,
    /// Too many wait for it already.
    #[error("too many requests wait for the store")]
    Full,
    /// It answered with an error.
    #[error("the store refused: {0}")]
    Refused(Arc<str>),
    /// It answered something that the script never answers.
    #[error("the store sent a reply of the wrong shape; is it Redis or Valkey, and is nothing in between?")]
    Garbled,
    /// A key of ours holds what another program has written. Nothing was charged.
    #[error("a key of the store holds something that is not a counter; does another program use its prefix?")]
    Foreign,
    /// A part of the cost was to be taken from slots or from a queue. Nothing was charged.
    #[error("slots and queues cannot be taken in part; charge the whole cost instead")]
    Indivisible,
}

impl StoreError {
    /// Whether it is sure that the store has done nothing, because it has heard nothing or has said so.
    /// Otherwise it may have done what it was asked to: an answer that is late, lost, or not understood can be
    /// of work that was done.
    pub fn nothing_sent(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Open | Self::Full | Self::Foreign | Self::Indivisible => true,
            Self::Late | Self::Broken(_) | Self::Refused(_) | Self::Garbled => false,
        }
    }
}
