//! Limits that requests bring along, in place of those in the rules.

use std::collections::HashMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tidegate_core::{Key, KeySeed, Micros};

use crate::counts::RuleCounts;
use crate::limiter::Limiter;
use crate::rendered::Rendered;
use crate::request::Entry;
use crate::rules::limit_spec::{Defaults, LimitSpec};
use crate::rules::tree::{RuleEntry, RuleSet};

/// The id of the rule that limits of requests count as.
pub(crate) const INLINE: &str = "inline";

/// How many distinct limits a domain's requests may bring if its rules do not say.
const USUAL_MOST: u64 = 1_000;

/// Limits ready to go with requests of a domain; see [`Limiter::inline_limits`]. Cheap to clone.
#[derive(Clone)]
pub struct InlineLimits(pub(crate) Arc<RuleEntry>, pub(crate) Arc<[LimitSpec]>);

impl InlineLimits {
    /// The limits as they were asked for.
    pub fn specs(&self) -> &[LimitSpec] {
        &self.1
    }

    /// Limits that are not put down as in use, for what was charged under them before.
    pub(crate) fn apart(
        domain: &str,
        limits: &[LimitSpec],
        defaults: &Defaults,
        seed: KeySeed,
    ) -> Result<Self, InlineError> {
        Ok(Self(Arc::new(RuleEntry::inline(domain, limits, defaults, seed)?), limits.into()))
    }
}

/// What seldom goes with a request or its decision. Mostly there is none, and then it costs a comparison to
/// drop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brought(ManuallyDrop<Option<Box<Along>>>);

#[derive(Clone, Debug, Default)]
struct Along {
    /// The limits that the request brings along, each with the index of its descriptor.
    limits: Vec<(usize, InlineLimits)>,
    /// The answer of the service that decided.
    rendered: Option<Arc<Rendered>>,
}

impl Brought {
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The limits of a descriptor.
    pub(crate) fn of(&self, descriptor: usize) -> Option<&InlineLimits> {
        let all = &self.0.as_deref()?.limits;
        all.iter().find(|(of, _)| *of == descriptor).map(|(_, limits)| limits)
    }

    /// Sets the limits of a descriptor.
    pub(crate) fn add(&mut self, descriptor: usize, limits: &InlineLimits) {
        let all = &mut self.0.get_or_insert_default().limits;
        all.retain(|(of, _)| *of != descriptor);
        all.push((descriptor, limits.clone()));
    }

    /// The answer of the service that decided, if one did.
    pub(crate) fn rendered(&self) -> Option<&Rendered> {
        self.0.as_deref()?.rendered.as_deref()
    }

    /// What a service answered, with a rule for each limit that it told of.
    #[cfg(feature = "remote")]
    pub(crate) fn answered(limits: Vec<(usize, InlineLimits)>, rendered: Arc<Rendered>) -> Self {
        Self(ManuallyDrop::new(Some(Box::new(Along { limits, rendered: Some(rendered) }))))
    }

    /// Keeps the limits of an answer alone.
    #[cfg(feature = "remote")]
    pub(crate) fn forget_rendered(&mut self) {
        if let Some(along) = self.0.as_deref_mut() {
            along.rendered = None;
        }
    }
}

#[cold]
fn free(brought: Option<Box<Along>>) {
    drop(brought);
}

// By hand, because what the compiler makes of it is a call into a function that saves registers first.
impl Drop for Brought {
    #[inline]
    fn drop(&mut self) {
        if !self.is_none() {
            free(self.0.take());
        }
    }
}

/// Why requests may not bring these limits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InlineError {
    /// The domain's rules do not allow it.
    #[error(
        "domain {domain:?} takes no limits from requests; allow them with `inline_limits: {{max: 1000}}` in its rules"
    )]
    NotAllowed {
        /// The domain.
        domain: String,
    },
    /// Too many different ones are in use.
    #[error(
        "domain {domain:?} has {most} different limits from requests already; use fewer, or raise `inline_limits.max`"
    )]
    TooMany {
        /// The domain.
        domain: String,
        /// What is allowed.
        most: u64,
    },
    /// The numbers do not make a limit.
    #[error("limit {name:?}: {reason}")]
    Invalid {
        /// The limit's name, or its window.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

/// The limits in use, by domain. They outlive a reload of the rules, if the domain does.
#[derive(Default)]
pub(crate) struct InlineRegistry(Mutex<HashMap<String, OfDomain>>);

/// The limits in use in a domain, by what was asked for, and what they decided together.
#[derive(Default)]
struct OfDomain {
    known: HashMap<String, InUse>,
    counts: Arc<RuleCounts>,
}

struct InUse {
    limits: InlineLimits,
    last: Micros,
    /// For how long its counters may still matter after the last request.
    window_us: u64,
}

impl InlineRegistry {
    /// What the limits of a domain's requests have done, if there were any.
    pub(crate) fn counts(&self, domain: &str) -> Option<Arc<RuleCounts>> {
        self.0.lock().get(domain).map(|of| Arc::clone(&of.counts))
    }

    /// Forgets domains that there are no more.
    pub(crate) fn keep_domains_of(&self, rules: &RuleSet) {
        self.0.lock().retain(|domain, _| rules.domain(domain).is_some());
    }
}

impl Limiter {
    /// Prepares limits that requests of a domain bring along, for [`crate::Request::limits`]. The
    /// rules of the domain must allow it, and say how many different ones there may be.
    ///
    /// ```
    /// use tidegate::{Domain, Limiter, Request, per_minute};
    ///
    /// let limiter = Limiter::builder().domain(Domain::new("apps").inline_limits(100)).build()?;
    /// let limits = limiter.inline_limits("apps", &[per_minute(2)]).expect("the domain allows it");
    /// let request = Request::new("apps", [("route", "/login")]).limits(&limits);
    /// assert_eq!(limiter.check_now(&request).remaining(), Some(1));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If the domain does not allow it, has too many already, or the numbers do not make a limit. Whether a
    /// remote service allows it is found out when it is asked.
    pub fn inline_limits(&self, domain: &str, limits: &[LimitSpec]) -> Result<InlineLimits, InlineError> {
        #[cfg(feature = "remote")]
        if self.inner.remote.is_some() {
            let prepared = self.bring(domain, limits, USUAL_MOST)?;
            return crate::remote::ask::can_be_sent(&prepared).map(|()| prepared);
        }
        let allowed = self.inner.rules.load().domain(domain).and_then(|(_, domain)| domain.inline_limits);
        let most = allowed.ok_or_else(|| InlineError::NotAllowed { domain: domain.to_owned() })?;
        self.bring(domain, limits, most)
    }

    /// As [`Limiter::inline_limits`] for a protocol in which a request may always bring a limit:
    /// only the bound on how many there are is the domain's. `None` if there is no such domain: then
    /// nothing is limited.
    ///
    /// # Errors
    /// If the domain has too many already, or the numbers do not make a limit.
    pub fn limit_override(
        &self,
        domain: &str,
        limit: LimitSpec,
    ) -> Result<Option<InlineLimits>, InlineError> {
        // Names that anybody may make up leave nothing behind.
        let Some(most) = self.inner.rules.load().domain(domain).map(|(_, domain)| domain.inline_limits)
        else {
            return Ok(None);
        };
        self.bring(domain, &[limit], most.unwrap_or(USUAL_MOST)).map(Some)
    }

    fn bring(&self, domain: &str, limits: &[LimitSpec], most: u64) -> Result<InlineLimits, InlineError> {
        let now = self.now();
        let mut domains = self.inner.inline.0.lock();
        let wanted = format!("{limits:?}");
        let known = domains.get_mut(domain).and_then(|of| of.known.get_mut(&wanted));
        if let Some(in_use) = known {
            in_use.last = now;
            return Ok(in_use.limits.clone());
        }
        let (seed, defaults) = (self.inner.store.seed(), &self.inner.defaults);
        let mut entry = RuleEntry::inline(domain, limits, defaults, seed)?;
        let OfDomain { known, counts } = domains.entry(domain.to_owned()).or_default();
        entry.counts = Arc::clone(counts);
        let limits = InlineLimits(Arc::new(entry), limits.into());
        if known.len() as u64 >= most {
            known.retain(|_, in_use| now.since(in_use.last) <= in_use.window_us);
        }
        if known.len() as u64 >= most {
            return Err(InlineError::TooMany { domain: domain.to_owned(), most });
        }
        let windows = limits.0.limits.iter().map(|entry| 2 * entry.limit.period_us());
        let window_us = windows.max().unwrap_or(0);
        known.insert(wanted, InUse { limits: limits.clone(), last: now, window_us });
        Ok(limits)
    }
}

impl RuleEntry {
    /// What tells one counter from another under limits a request brings: every entry of the
    /// descriptor, key and value.
    pub(crate) fn inline_values(seed: KeySeed, entries: &[Entry<'_>]) -> Key {
        seed.texts(entries.iter().flat_map(|(key, value)| [*key, *value]))
    }

    /// A rule of its own for limits that are not in the rules.
    pub(crate) fn inline(
        domain: &str,
        limits: &[LimitSpec],
        defaults: &Defaults,
        seed: KeySeed,
    ) -> Result<Self, InlineError> {
        let mut entries = Vec::with_capacity(limits.len());
        for spec in limits {
            let invalid = |reason| InlineError::Invalid { name: spec.effective_name(), reason };
            let entry = spec.entry(defaults, seed).map_err(|error| invalid(error.reason))?;
            if entries.iter().any(|known: &crate::rules::tree::LimitEntry| known.name == entry.name) {
                return Err(invalid("two limits have this name; name them apart".to_owned()));
            }
            entries.push(entry);
        }
        Ok(Self { limits: entries.into(), ..Self::bare(INLINE, seed.texts([domain, INLINE])) })
    }
}

impl fmt::Debug for InlineLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.limits.iter().map(|entry| entry.limit.to_string())).finish()
    }
}
