//! Inline limits: limits that a request carries, in place of those in the rules.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use thiserror::Error;
use tidegate_core::{Key, KeySeed};

use crate::inline_registry::{InlineScope, ScopeFull};
use crate::limiter::Limiter;
use crate::request::Entry;
use crate::rules::compile::salt_of_numbers;
use crate::rules::limit_spec::{AlgorithmName, Defaults, LimitSpec};
use crate::rules::tree::{LimitEntry, RuleEntry};

/// The ID of the rule that all inline limits belong to.
pub(crate) const INLINE: &str = "inline";

/// The most distinct inline limits of a domain, if its rules do not set it.
const DEFAULT_MAX_LIMITS: u64 = 1_000;

/// Prepared inline limits for requests of a domain; see [`Limiter::inline_limits`]. Cheap to clone.
#[derive(Clone)]
pub struct InlineLimits(pub(crate) Arc<RuleEntry>, pub(crate) Arc<[LimitSpec]>);

impl InlineLimits {
    /// Returns the limits as they were specified.
    pub fn specs(&self) -> &[LimitSpec] {
        &self.1
    }

    /// Returns for each limit what identifies its counters, besides domain and descriptor.
    #[doc(hidden)]
    pub fn identities(&self) -> impl Iterator<Item = String> {
        self.0.limits.iter().map(|entry| match &entry.given_name {
            Some(name) => format!("{name:?} {}", entry.limit.family()),
            None => entry.limit.to_string(),
        })
    }

    /// Returns how many single limits these are.
    pub(crate) fn count(&self) -> usize {
        self.1.len()
    }

    pub(crate) fn longest_window_us(&self) -> u64 {
        self.0.limits.iter().map(|entry| entry.limit.period_us()).max().unwrap_or(0)
    }

    /// Prepares limits without registering them as in use, for corrections of earlier charges.
    pub(crate) fn apart(
        domain: &str,
        limits: &[LimitSpec],
        defaults: &Defaults,
        seed: KeySeed,
    ) -> Result<Self, InlineError> {
        let entry = RuleEntry::inline(domain, limits, Unnamed::ByNumbers, defaults, seed)?;
        Ok(Self(Arc::new(entry), limits.into()))
    }
}

/// What identifies the counters of limits without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// Requests, burst, window and algorithm: each limit that an application writes has counters of its own.
    ByNumbers,
    /// The window, as in envoyproxy/ratelimit: a counter continues if the numbers of its limit change.
    ByWindow,
}

/// The inline limits of a request, by descriptor. Nearly always there are none, and then dropping it is one
/// comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescriptorLimits(ManuallyDrop<Option<Box<DescriptorLimitList>>>);

/// Limits, each with the index of its descriptor. Boxed, because a vector takes three words.
#[derive(Clone, Debug, Default)]
struct DescriptorLimitList(Vec<(usize, InlineLimits)>);

impl DescriptorLimits {
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the limits of a descriptor.
    pub(crate) fn of(&self, descriptor: usize) -> Option<&InlineLimits> {
        let all = &self.0.as_deref()?.0;
        all.iter().find(|(of, _)| *of == descriptor).map(|(_, limits)| limits)
    }

    /// Sets the limits of a descriptor.
    pub(crate) fn add(&mut self, descriptor: usize, limits: &InlineLimits) {
        let all = &mut self.0.get_or_insert_default().0;
        all.retain(|(of, _)| *of != descriptor);
        all.push((descriptor, limits.clone()));
    }
}

#[cold]
fn free(limits: Option<Box<DescriptorLimitList>>) {
    drop(limits);
}

// Implemented by hand, because the drop glue of the compiler is a function call that saves registers first.
impl Drop for DescriptorLimits {
    #[inline]
    fn drop(&mut self) {
        if !self.is_none() {
            free(self.0.take());
        }
    }
}

/// Reasons why inline limits are rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InlineError {
    /// The rules of the domain do not allow inline limits.
    #[error(
        "domain {domain:?} takes no limits from requests; allow them with `inline_limits: {{max: 1000}}` in its rules"
    )]
    NotAllowed {
        /// The domain.
        domain: String,
    },
    /// The domain has too many different inline limits in use.
    #[error(
        "domain {domain:?} has {most} different limits from requests{} already; use fewer, or raise `inline_limits.max`",
        with(.scope.as_deref())
    )]
    TooMany {
        /// The domain.
        domain: String,
        /// The first entry, `key=value`, of the requests that carry them; `None` if the program sets them.
        scope: Option<String>,
        /// The most that are allowed.
        most: u64,
    },
    /// The numbers of a limit are invalid.
    #[error("limit {name:?}: {reason}")]
    Invalid {
        /// The name of the limit, or its window.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Limiter {
    /// Prepares inline limits for requests of a domain, for [`crate::Request::limits`]. The rules of the
    /// domain must allow it, and set how many different ones there may be.
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
    /// Returns an error if the domain does not allow inline limits or has too many in use, or if the numbers are
    /// invalid.
    pub fn inline_limits(&self, domain: &str, limits: &[LimitSpec]) -> Result<InlineLimits, InlineError> {
        let most = self.inline_most(domain)?;
        self.prepare_inline(
            Preparation { domain, limits, unnamed: Unnamed::ByNumbers, scope: None, most },
            true,
        )
    }

    /// Prepares inline limits as [`Limiter::inline_limits`] does, for limits that a client's request carries. `scope`
    /// is the first entry of its descriptor. Requests of one scope may use a tenth of the domain's inline limits (at
    /// least 16, at most 1,000); beyond that only they are refused. A request of cost 0 does not count as a use.
    ///
    /// # Errors
    /// Returns an error if the domain does not allow inline limits, if it or the scope has too many in use, or if the
    /// numbers are invalid.
    pub fn inline_limits_of(
        &self,
        domain: &str,
        limits: &[LimitSpec],
        scope: Entry<'_>,
        cost: u64,
    ) -> Result<InlineLimits, InlineError> {
        let most = self.inline_most(domain)?;
        let scope = Some(scope);
        self.prepare_inline(
            Preparation { domain, limits, unnamed: Unnamed::ByNumbers, scope, most },
            cost > 0,
        )
    }

    fn inline_most(&self, domain: &str) -> Result<u64, InlineError> {
        let allowed = self.inner.rules.load().domain(domain).and_then(|(_, domain)| domain.inline_limits);
        allowed.ok_or_else(|| InlineError::NotAllowed { domain: domain.to_owned() })
    }

    /// Prepares inline limits as [`Limiter::inline_limits_of`] does, for a protocol whose requests may always carry
    /// limits: the domain only bounds how many there are. Returns `None` if there is no such domain; then nothing is
    /// limited.
    ///
    /// # Errors
    /// Returns an error if the scope has too many inline limits in use, or if the numbers are invalid.
    pub fn limit_override(
        &self,
        domain: &str,
        limit: LimitSpec,
        scope: Entry<'_>,
    ) -> Result<Option<InlineLimits>, InlineError> {
        // A name that anyone can make up must not take memory.
        let Some(most) = self.inner.rules.load().domain(domain).map(|(_, domain)| domain.inline_limits)
        else {
            return Ok(None);
        };
        let (most, limits, scope) = (most.unwrap_or(DEFAULT_MAX_LIMITS), &[limit][..], Some(scope));
        self.prepare_inline(Preparation { domain, limits, unnamed: Unnamed::ByWindow, scope, most }, true)
            .map(Some)
    }

    /// Returns the number of inline limits that a domain has in use.
    pub fn inline_limits_in_use(&self, domain: &str) -> usize {
        self.inner.inline.len(domain)
    }

    /// Returns the number of single inline limits that all domains have in use.
    pub fn inline_limits_held(&self) -> usize {
        self.inner.inline.limits()
    }

    fn prepare_inline(
        &self,
        preparation: Preparation<'_>,
        register: bool,
    ) -> Result<InlineLimits, InlineError> {
        let Preparation { domain, limits, unnamed, scope, most } = preparation;
        let (now, registry) = (self.now(), &self.inner.inline);
        let identity = format!("{unnamed:?} {limits:?}");
        if let Some(known) = registry.find(domain, &identity, now) {
            return Ok(known);
        }
        let (seed, defaults) = (self.inner.backend.memory.seed(), &self.inner.defaults);
        let mut entry = RuleEntry::inline(domain, limits, unnamed, defaults, seed)?;
        entry.counts = registry.counts_of(domain);
        let prepared = InlineLimits(Arc::new(entry), limits.into());
        if register {
            let by = scope.map_or(InlineScope::Program, |(key, value)| {
                InlineScope::Requests(seed.texts([key, value]).mark)
            });
            registry.put(domain, &identity, &prepared, by, now, most).map_err(|ScopeFull(most)| {
                let scope = scope.map(|(key, value)| format!("{key}={value}"));
                InlineError::TooMany { domain: domain.to_owned(), scope, most }
            })?;
        }
        Ok(prepared)
    }
}

/// Inline limits to prepare, and the most that the domain may have.
#[derive(Clone, Copy)]
struct Preparation<'a> {
    domain: &'a str,
    limits: &'a [LimitSpec],
    unnamed: Unnamed,
    /// The first entry of the request that carries the limits; `None` if the program sets them itself.
    scope: Option<Entry<'a>>,
    most: u64,
}

impl RuleEntry {
    /// Returns the fingerprint that identifies the counters of an inline limit: of every key and value of the
    /// descriptor.
    pub(crate) fn inline_values(seed: KeySeed, entries: &[Entry<'_>]) -> Key {
        seed.texts(entries.iter().flat_map(|(key, value)| [*key, *value]))
    }

    /// Creates a rule for inline limits.
    pub(crate) fn inline(
        domain: &str,
        limits: &[LimitSpec],
        unnamed: Unnamed,
        defaults: &Defaults,
        seed: KeySeed,
    ) -> Result<Self, InlineError> {
        let mut entries: Vec<LimitEntry> = Vec::with_capacity(limits.len());
        for (index, spec) in limits.iter().enumerate() {
            let title = title(limits, index);
            let invalid = |reason| InlineError::Invalid { name: title.clone(), reason };
            let spec = match unnamed {
                Unnamed::ByNumbers => spec.written_in_code(defaults),
                Unnamed::ByWindow => spec.clone(),
            };
            let mut entry =
                spec.entry_named(&title, defaults, seed).map_err(|error| invalid(error.reason))?;
            if spec.name.is_none() && unnamed == Unnamed::ByNumbers {
                entry.salt = salt_of_numbers(seed, &entry.limit);
            }
            if entries.iter().any(|known| spec.name.is_some() && known.given_name == entry.given_name) {
                return Err(invalid("two limits have this name; name them apart".to_owned()));
            }
            if entries.iter().any(|known| known.salt == entry.salt) {
                let reason = "the same limit is there twice; leave one out, or give each a name";
                return Err(invalid(reason.to_owned()));
            }
            entries.push(entry);
        }
        Ok(Self { limits: entries.into(), ..Self::bare(INLINE, seed.texts([domain, INLINE])) })
    }
}

/// Returns ` with route=search` if requests carry the limits, else nothing.
fn with(scope: Option<&str>) -> String {
    scope.map_or_else(String::new, |scope| format!(" with {scope}"))
}

/// Returns the name of a limit in decisions: its own name, else its window with as many of its numbers as are needed to
/// distinguish it from the other limits of the list.
fn title(limits: &[LimitSpec], index: usize) -> String {
    let spec = &limits[index];
    if let Some(name) = &spec.name {
        return name.clone();
    }
    let differs = |words: fn(&LimitSpec) -> String| {
        let of = |other: &LimitSpec| other.name.clone().unwrap_or_else(|| words(other));
        let mut others = limits.iter().enumerate().filter(|(other, _)| *other != index);
        let own = words(spec);
        others.all(|(_, other)| of(other) != own).then_some(own)
    };
    let forms: [fn(&LimitSpec) -> String; 3] = [
        |spec| spec.window.to_string(),
        |spec| format!("{}/{}", spec.requests, spec.window),
        |spec| {
            let algorithm = spec.algorithm.map_or("default", AlgorithmName::name);
            let burst = spec.burst.map_or(String::new(), |burst| format!(" burst {burst}"));
            format!("{}/{} {algorithm}{burst}", spec.requests, spec.window)
        },
    ];
    let found = forms.into_iter().find_map(differs);
    found.unwrap_or_else(|| format!("{}/{} ({})", spec.requests, spec.window, index + 1))
}

impl fmt::Debug for InlineLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.limits.iter().map(|entry| entry.limit.to_string())).finish()
    }
}
