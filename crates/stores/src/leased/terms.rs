//! The terms of limits, each stored once however many keys have it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::RwLock;
use tidegate_core::Limit;
use tidegate_core::lease::Terms;

/// Maximum number of remembered limits. When it is exceeded, all limits that no lease uses are dropped.
const MAX_LIMITS: usize = 10_000;

/// The terms of all limits seen so far.
pub(super) struct TermsTable {
    longest_us: u64,
    /// By the hash of the limit; limits with the same hash are in one list.
    known: RwLock<HashMap<u64, Vec<Arc<Terms>>>>,
}

impl TermsTable {
    pub(super) fn new(longest_us: u64) -> Self {
        Self { longest_us, known: RwLock::default() }
    }

    /// Returns the terms of a limit, or `None` if it cannot be leased.
    pub(super) fn of(&self, limit: &Limit) -> Option<Arc<Terms>> {
        let hash = hash_of(limit);
        let same = |terms: &&Arc<Terms>| terms.limit() == limit;
        if let Some(terms) = self.known.read().get(&hash).and_then(|list| list.iter().find(same)) {
            return Some(Arc::clone(terms));
        }
        let terms = Arc::new(Terms::new(limit, self.longest_us).ok()?);
        let mut known = self.known.write();
        if known.len() >= MAX_LIMITS {
            known.retain(|_, list| {
                list.retain(|terms| Arc::strong_count(terms) > 1);
                !list.is_empty()
            });
        }
        known.entry(hash).or_default().push(Arc::clone(&terms));
        Some(terms)
    }
}

fn hash_of(limit: &Limit) -> u64 {
    let mut hasher = DefaultHasher::new();
    (limit.algorithm(), limit.requests(), limit.period_us(), limit.burst()).hash(&mut hasher);
    hasher.finish()
}
