//! Shared code of the `tidegate.v1` calls.

use std::borrow::Cow;
use std::time::Duration;

use tonic::Status;

use crate::bounds::{Bounds, Refusal};
use crate::decider::{Decider, NO_RULES};
pub(super) use crate::protocols::tidegate_v1 as pb;

/// Handles the calls of `tidegate.v1`.
pub(super) struct TidegateV1 {
    pub(super) decider: Decider,
    /// The bounds on what a client may send.
    pub(super) bounds: Bounds,
}

/// The key and value of an entry in canonical form.
pub(super) type CountedEntry<'a> = (Cow<'a, str>, Cow<'a, str>);

impl TidegateV1 {
    /// Checks a request against the bounds, and returns the entries of each of its descriptors. With
    /// `bounds.odd_values: count`, descriptors and entries beyond the bounds are dropped.
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
        let mut is_canonical = self.is_beyond(self.bounds.descriptors(descriptors.len()))?;
        let mut counted = Vec::with_capacity(descriptors.len().min(self.bounds.descriptors));
        for entries in descriptors.take(self.bounds.descriptors) {
            is_canonical |= self.is_beyond(self.bounds.entries(entries.len()))?;
            let entries = entries.iter().take(self.bounds.entries);
            let texts = entries.map(|entry| self.bounds.entry_text(&entry.key, &entry.value));
            counted.push(texts.collect::<Result<Vec<CountedEntry<'a>>, Refusal>>()?);
        }
        let is_owned =
            |(key, value): &CountedEntry<'_>| [key, value].iter().any(|text| matches!(text, Cow::Owned(_)));
        if is_canonical || counted.iter().flatten().any(is_owned) {
            self.decider.count_canonicalized();
        }
        Ok(counted)
    }

    /// Returns whether a bound is exceeded. That is an error with `bounds.odd_values: refuse`.
    fn is_beyond(&self, checked: Result<(), Refusal>) -> Result<bool, Refusal> {
        match checked {
            Ok(()) => Ok(false),
            Err(Refusal::TooMany { .. }) if self.bounds.counts_odd_values() => Ok(true),
            Err(refusal) => Err(refusal),
        }
    }
}

/// Returns the entries as borrowed strings.
pub(super) fn borrowed<'a>(entries: &'a [CountedEntry<'_>]) -> Vec<(&'a str, &'a str)> {
    entries.iter().map(|(key, value)| (&**key, &**value)).collect()
}

/// Converts a duration to its protobuf message; `None` if it is infinite.
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
