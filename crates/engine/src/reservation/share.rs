//! Limits how many reservations one holder may have in the shared store.
//!
//! Each reservation takes a token from a bucket of the holder. Settling returns the token; a reservation that is
//! never settled returns it in about its lifetime. So a holder has at most twice its share of unsettled reservations
//! on all nodes together, at the cost of one more small counter.

use std::time::Duration;

use tidegate_core::{Algorithm, Key, Limit, Taken, Window};
use tidegate_stores::{Charge, Correction};

use crate::request::Request;
use crate::rules::tree::RuleSet;

/// The bucket of a holder, for reservations of similar lifetimes.
pub(super) struct Share {
    key: Key,
    limit: Limit,
    partition: u64,
}

impl Share {
    /// Returns the bucket for reservations of a request with this lifetime. Lifetimes are rounded up to a power of
    /// two seconds, so that short reservations cannot empty the bucket of long ones. `partition` is that of the
    /// request's first charge, so that both are settled together.
    pub(super) fn new(
        rules: &RuleSet,
        request: &Request<'_>,
        most: u64,
        lasts: Duration,
        partition: u64,
    ) -> Option<Self> {
        let seconds = lasts.as_secs().max(1).checked_next_power_of_two()?;
        let limit =
            Limit::new(Algorithm::TokenBucket { burst: most }, most, Window::seconds(seconds)).ok()?;
        let salt = rules.seed.texts(["reservations", &seconds.to_string()]).mark;
        Some(Self { key: holder_key(rules, request).of_limit(salt), limit, partition })
    }

    pub(super) fn charge(&self) -> Charge<'_> {
        Charge { partition: self.partition, ..Charge::new(self.key, &self.limit, 1) }
    }

    pub(super) fn give_back(&self, taken: Taken) -> (Charge<'_>, Correction) {
        (self.charge(), Correction::GiveBack(taken))
    }
}

/// Returns the key that identifies a holder: its domain and descriptors.
pub(super) fn holder_key(rules: &RuleSet, request: &Request<'_>) -> Key {
    request.descriptors().fold(rules.seed.text(request.domain()), |key, (entries, _)| {
        key.then(rules.seed.texts(entries.iter().flat_map(|(key, value)| [*key, *value])))
    })
}
