//! The author and the precondition of a write.

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::name;

/// The author of a change, for the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// The name of the token or component that makes the change.
    pub actor: String,
    /// The ID of the request that asked for the change.
    pub request_id: String,
    /// When the change is made. Stored in whole microseconds.
    pub at: Timestamp,
}

impl By {
    /// Creates an author from an actor, a request ID and a time.
    pub fn new(actor: impl Into<String>, request_id: impl Into<String>, at: Timestamp) -> Self {
        Self { actor: actor.into(), request_id: request_id.into(), at }
    }

    pub(crate) fn check(&self) -> Result<()> {
        name::check("actor", &self.actor)?;
        name::check("request_id", &self.request_id)
    }
}

/// The condition for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    Any,
    /// The object does not exist yet.
    Absent,
    /// The object exists.
    Present,
    /// The object has this revision; for rules, this version.
    Revision(u64),
}

impl Precondition {
    pub(crate) fn check(self, current: Option<u64>) -> Result<()> {
        let holds = match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Revision(revision) => current == Some(revision),
        };
        if holds { Ok(()) } else { Err(Error::Precondition { current }) }
    }
}
