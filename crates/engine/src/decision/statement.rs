//! Decisions that a service made and stated.

use std::time::Duration;

use tidegate_core::Limit;

use super::{LimitStatus, Source};
use crate::rendered::Rendered;

/// A decision that somebody else made, as they state it; see [`super::Decision::stated`].
#[derive(Clone, Debug)]
pub struct Statement {
    /// Whether the request may pass.
    pub allowed: bool,
    /// Who made the decision.
    pub source: Source,
    /// What each limit said.
    pub limits: Vec<StatedLimit>,
    /// The index in `limits` of the limit that decided, if one did.
    pub deciding: Option<usize>,
    /// The response as a service rendered it, to be passed on as it is.
    pub rendered: Option<Rendered>,
}

/// One limit of a [`Statement`].
#[derive(Clone, Debug)]
pub struct StatedLimit {
    /// The rule's name, or its path.
    pub rule: String,
    /// The limit's name, or its window.
    pub name: String,
    /// The numbers, as far as they are stated.
    pub limit: Limit,
    /// Whether the limit is evaluated and counted only.
    pub shadow: bool,
    /// Units left after the decision.
    pub remaining: u64,
    /// Until the limit is untouched again if nothing more is charged.
    pub reset_after: Duration,
    /// When the same request would pass this limit; [`Duration::MAX`] for never, `None` if it passes.
    pub retry_after: Option<Duration>,
}

impl Statement {
    pub(super) fn deciding(&self) -> Option<&StatedLimit> {
        self.limits.get(self.deciding?)
    }

    /// Units left of the tightest enforced limit.
    pub(super) fn remaining(&self) -> Option<u64> {
        self.limits.iter().filter(|limit| !limit.shadow).map(|limit| limit.remaining).min()
    }
}

impl StatedLimit {
    pub(super) fn status(&self) -> LimitStatus<'_> {
        LimitStatus {
            descriptor: None,
            rule: &self.rule,
            name: &self.name,
            given_name: None,
            limit: &self.limit,
            allowed: self.retry_after.is_none(),
            shadow: self.shadow,
            remaining: self.remaining,
            reset_after: self.reset_after,
            retry_after: self.retry_after,
        }
    }
}
