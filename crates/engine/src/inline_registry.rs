//! The inline limits in use, with bounds that prevent one client from using up the share of others.
//!
//! An inline limit takes memory, so a domain has a maximum number of them. Requests with the same first entry (one
//! scope) may use a tenth of that number; beyond it only they are refused new limits. If the domain as a whole is
//! full, the limit that was unused for longest is dropped. If it is requested again, it has the same counters,
//! because these are identified by its numbers. The same happens if all domains together have as many as
//! the process has memory for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::Micros;

use crate::counts::RuleCounts;
use crate::inline::InlineLimits;
use crate::rules::tree::RuleSet;

/// The divisor for the share of a domain's limits that one scope may use.
const SCOPES: u64 = 10;

/// The smallest share of a scope. Also the most limits of a scope that are searched for unused ones.
const FEWEST_OF_SCOPE: u64 = 16;
const MOST_OF_SCOPE: u64 = 1_000;

/// The default maximum of single limits that all domains have in use.
pub(crate) const DEFAULT_MAX_INLINE_LIMITS: usize = 1_000_000;

/// The most limits that are examined to find one to drop.
const STEPS: usize = 16;

/// Who sets inline limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InlineScope {
    /// The program that the limiter is part of.
    Program,
    /// Requests whose first entry has this fingerprint.
    Requests(u64),
}

/// The inline limits in use, by domain. They survive a reload of the rules if the domain does.
pub(crate) struct InlineRegistry {
    domains: Mutex<HashMap<String, OfDomain>>,
    /// The maximum number of single limits of all domains together. A domain may have one set of them beyond that.
    max_limits: usize,
}

/// The inline limits in use in a domain, by identity, and their common counts.
#[derive(Default)]
struct OfDomain {
    known: HashMap<Arc<str>, InUse>,
    /// The limits in the order in which they are examined, oldest first.
    queue: VecDeque<Arc<str>>,
    scopes: HashMap<InlineScope, Vec<Arc<str>>>,
    /// Single limits of all that are in use.
    limits: usize,
    counts: Arc<RuleCounts>,
}

struct InUse {
    limits: InlineLimits,
    scope: InlineScope,
    last: Micros,
    /// Whether the limit was used since it was last examined.
    used: bool,
    /// The number of single limits that were requested together.
    size: usize,
    /// How long its counters may still matter after the last request.
    window_us: u64,
}

/// The error for a scope that already uses this many limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeFull(pub(crate) u64);

impl InlineScope {
    /// Returns how many limits a scope may use in a domain with a maximum of `most`.
    fn share(self, most: u64) -> u64 {
        match self {
            Self::Program => most,
            Self::Requests(_) => (most / SCOPES).clamp(FEWEST_OF_SCOPE, MOST_OF_SCOPE).min(most),
        }
    }
}

impl InlineRegistry {
    /// Returns an empty registry for at most this many single limits.
    pub(crate) fn new(max_limits: usize) -> Self {
        Self { domains: Mutex::default(), max_limits }
    }

    /// Returns the number of single limits in use in all domains.
    pub(crate) fn limits(&self) -> usize {
        self.domains.lock().values().map(|of| of.limits).sum()
    }

    /// Returns the counts of a domain's inline limits, if there were any.
    pub(crate) fn counts(&self, domain: &str) -> Option<Arc<RuleCounts>> {
        self.domains.lock().get(domain).map(|of| Arc::clone(&of.counts))
    }

    /// Returns the common counters of a domain's inline limits.
    pub(crate) fn counts_of(&self, domain: &str) -> Arc<RuleCounts> {
        let mut domains = self.domains.lock();
        if let Some(of) = domains.get(domain) {
            return Arc::clone(&of.counts);
        }
        Arc::clone(&domains.entry(domain.to_owned()).or_default().counts)
    }

    /// Drops domains that no longer exist.
    pub(crate) fn keep_domains_of(&self, rules: &RuleSet) {
        self.domains.lock().retain(|domain, _| rules.domain(domain).is_some());
    }

    /// Returns the number of inline limits that a domain has in use.
    pub(crate) fn len(&self, domain: &str) -> usize {
        self.domains.lock().get(domain).map_or(0, |of| of.known.len())
    }

    /// Returns limits that are already in use, and marks them as used.
    pub(crate) fn find(&self, domain: &str, identity: &str, now: Micros) -> Option<InlineLimits> {
        let mut domains = self.domains.lock();
        let in_use = domains.get_mut(domain)?.known.get_mut(identity)?;
        (in_use.last, in_use.used) = (now, true);
        Some(in_use.limits.clone())
    }

    /// Registers limits as in use.
    pub(crate) fn put(
        &self,
        domain: &str,
        identity: &str,
        limits: &InlineLimits,
        scope: InlineScope,
        now: Micros,
        most: u64,
    ) -> Result<(), ScopeFull> {
        let mut domains = self.domains.lock();
        let all: usize = domains.values().map(|of| of.limits).sum();
        let of = domains.entry(domain.to_owned()).or_default();
        let others = all - of.limits;
        if of.known.contains_key(identity) {
            return Ok(());
        }
        let (share, size) = (scope.share(most), limits.count());
        if of.count(scope) >= share {
            of.drop_unused(scope, now);
        }
        if of.count(scope) >= share {
            return Err(ScopeFull(share));
        }
        if of.known.len() as u64 >= most {
            of.drop_one();
        }
        while !of.known.is_empty() && others + of.limits + size > self.max_limits {
            of.drop_one();
        }
        let identity: Arc<str> = identity.into();
        let window_us = limits.longest_window_us().saturating_mul(2);
        let in_use = InUse { limits: limits.clone(), scope, last: now, used: false, size, window_us };
        of.limits += size;
        of.scopes.entry(scope).or_default().push(Arc::clone(&identity));
        of.queue.push_back(Arc::clone(&identity));
        of.known.insert(identity, in_use);
        Ok(())
    }
}

impl OfDomain {
    fn count(&self, scope: InlineScope) -> u64 {
        self.scopes.get(&scope).map_or(0, |identity| identity.len() as u64)
    }

    /// Drops the limits of a scope whose counters no longer matter.
    fn drop_unused(&mut self, scope: InlineScope, now: Micros) {
        let Some(identity) = self.scopes.get_mut(&scope) else { return };
        let is_used = |in_use: &InUse| now.since(in_use.last) <= in_use.window_us;
        identity.retain(|identity| {
            let used = self.known.get(identity).is_some_and(is_used);
            if !used && let Some(gone) = self.known.remove(identity) {
                self.limits -= gone.size;
            }
            used
        });
        if self.queue.len() > self.known.len() {
            self.queue.retain(|identity| self.known.contains_key(identity));
        }
    }

    /// Drops a limit that was not used for long: the first in the queue that was not used since it was last examined,
    /// or the next one after [`STEPS`].
    fn drop_one(&mut self) {
        let mut steps = 0;
        while let Some(identity) = self.queue.pop_front() {
            let Some(in_use) = self.known.get_mut(&identity) else { continue };
            if in_use.used && steps < STEPS {
                in_use.used = false;
                steps += 1;
                self.queue.push_back(identity);
                continue;
            }
            let (scope, size) = (in_use.scope, in_use.size);
            self.known.remove(&identity);
            self.limits -= size;
            if let Some(of_scope) = self.scopes.get_mut(&scope) {
                of_scope.retain(|other| *other != identity);
                if of_scope.is_empty() {
                    self.scopes.remove(&scope);
                }
            }
            return;
        }
    }
}
