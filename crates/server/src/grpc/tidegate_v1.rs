//! What the calls of `tidegate.v1` have in common.

use std::borrow::Cow;
use std::time::Duration;

use tonic::Status;

use crate::bounds::{Bounds, Refusal};
use crate::decider::{Decider, NO_RULES};
pub(super) use crate::protocols::tidegate_v1 as pb;

/// Answers the calls of `tidegate.v1`.
pub(super) struct TidegateV1 {
    pub(super) decider: Decider,
    /// What a client may send.
    pub(super) bounds: Bounds,
}

/// An entry whose value is in the form that is counted.
pub(super) type CountedEntry<'a> = (&'a str, Cow<'a, str>);

impl TidegateV1 {
    /// Checks a request against the bounds, and returns the entries of each of its descriptors.
    pub(super) fn entries<'a>(
        &self,
        domain: &str,
        descriptors: impl ExactSizeIterator<Item = &'a Vec<pb::Entry>>,
    ) -> Result<Vec<Vec<CountedEntry<'a>>>, Status> {
        if !self.decider.limiter().has_rules() {
            return Err(Status::failed_precondition(NO_RULES));
        }
        if domain.is_empty() {
            return Err(Refusal::Empty { what: "the domain" }.into());
        }
        if descriptors.len() == 0 {
            return Err(Refusal::Empty { what: "the descriptors" }.into());
        }
        self.bounds.domain(domain)?;
        self.bounds.descriptors(descriptors.len())?;
        Ok(descriptors.map(|entries| self.counted(entries)).collect::<Result<_, Refusal>>()?)
    }

    fn counted<'a>(&self, entries: &'a [pb::Entry]) -> Result<Vec<CountedEntry<'a>>, Refusal> {
        let bounds = &self.bounds;
        bounds.entries(entries.len())?;
        let entry = |entry: &'a pb::Entry| {
            let value = bounds.value_text(&entry.value)?;
            bounds.entry(&entry.key, if bounds.counts_odd_values() { "" } else { &value })?;
            Ok((entry.key.as_str(), value))
        };
        entries.iter().map(entry).collect()
    }
}

/// Borrows entries in the form that a request takes.
pub(super) fn borrowed<'a>(entries: &'a [CountedEntry<'_>]) -> Vec<(&'a str, &'a str)> {
    entries.iter().map(|(key, value)| (*key, &**value)).collect()
}

/// Returns a duration as a message; `None` if it never ends.
pub(super) fn finite(time: Duration) -> Option<prost_types::Duration> {
    Some(time)
        .filter(|time| *time < Duration::MAX)
        .and_then(|time| prost_types::Duration::try_from(time).ok())
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::invalid_argument(refusal.to_string())
    }
}
