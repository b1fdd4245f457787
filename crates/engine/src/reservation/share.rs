//! How many reservations one holder may have in the store that nodes share.
//!
//! Each takes a token of a bucket that is the holder's own; settling gives it back, and what is never settled
//! comes back in about the time that the reservation lasts. So a holder has at most twice its share waiting to
//! be settled, on all nodes together, at the price of one more small counter.

use std::time::Duration;

use tidegate_core::{Algorithm, Key, Limit, Taken, Window};
use tidegate_stores::{Charge, Correction};

use crate::request::Request;
use crate::rules::tree::RuleSet;

/// The bucket of a holder, for reservations that last about as long.
pub(super) struct Share {
    key: Key,
    limit: Limit,
    partition: u64,
}

impl Share {
    /// The bucket for reservations of a request that last this long. Buckets go by the next power of two
    /// seconds, so that who reserves for short cannot empty the one of those who reserve for long. `partition` is
    /// that of the request's first charge: both are settled together.
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

/// What tells those who hold reservations apart: domain and descriptors.
pub(super) fn holder_key(rules: &RuleSet, request: &Request<'_>) -> Key {
    request.descriptors().fold(rules.seed.text(request.domain()), |key, (entries, _)| {
        key.then(rules.seed.texts(entries.iter().flat_map(|(key, value)| [*key, *value])))
    })
}
