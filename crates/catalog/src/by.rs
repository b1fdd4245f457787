//! Who writes, and under which condition.

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::name;

/// Who makes a change, for the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// The name of the token, or of whatever else acts.
    pub actor: String,
    /// The request that asked for it.
    pub request_id: String,
    /// When, to the microsecond.
    pub at: Timestamp,
}

impl By {
    /// Who, by which request, when.
    pub fn new(actor: impl Into<String>, request_id: impl Into<String>, at: Timestamp) -> Self {
        Self { actor: actor.into(), request_id: request_id.into(), at }
    }

    pub(crate) fn check(&self) -> Result<()> {
        name::check("actor", &self.actor)?;
        name::check("request_id", &self.request_id)
    }
}

/// What must be so for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    Any,
    /// It does not exist yet.
    Absent,
    /// It exists.
    Present,
    /// It is at this revision; for rules, at this version.
    Revision(u64),
}

impl Precondition {
    pub(crate) fn check(self, current: Option<u64>) -> Result<()> {
        let holds = match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Revision(wanted) => current == Some(wanted),
        };
        if holds { Ok(()) } else { Err(Error::Precondition { current }) }
    }
}
