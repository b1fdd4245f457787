//! The outcome of a request.
//!
//! - `charged`: decisions that this process made, with the rules they were made under
//! - `statement`: decisions that a service made and stated

mod charged;
mod statement;

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Limit;

pub(crate) use self::charged::{Charged, Item, Items, Summary};
pub use self::statement::{StatedLimit, Statement};
use crate::rendered::Rendered;
use crate::request::Request;

/// The `retry_after` of a request that was denied without evaluating its limits.
const UNSEEN_RETRY: Duration = Duration::from_secs(1);

/// Whether a request may pass, and the verdict of each of its limits.
///
/// ```
/// # use tidegate::{Domain, Limiter, Request, Rule, per_minute};
/// # let limiter = Limiter::builder().domain(Domain::new("api").rule(Rule::by("user").limit(per_minute(1)))).build()?;
/// let request = Request::new("api", [("user", "ann")]);
/// assert!(limiter.check_now(&request).allowed());
///
/// let denied = limiter.check_now(&request);
/// assert!(!denied.allowed());
/// let limit = denied.decided_by().expect("a limit denied it");
/// assert_eq!((limit.rule, limit.name, limit.remaining), ("user", "minute", 0));
/// println!("{denied}"); // denied by user (minute): 0 of 1 left, retry after 59.9s
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Decision(Basis);

/// The basis of a decision. The second variant is told apart by a niche of the first, so there is no tag to write.
#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all decisions are charged, and a box would cost an allocation"
)]
enum Basis {
    /// This process charged the limits.
    Charged(Charged),
    /// A service decided and stated the result.
    Stated(Arc<Statement>),
}

const _: () = assert!(size_of::<Decision>() == size_of::<Charged>(), "a decision has no room to spare");

/// Who made a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// This process alone, which is all there is.
    #[default]
    Memory,
    /// The store that nodes share.
    Shared,
    /// This process by each rule's `on_store_error`, because the shared store failed.
    Fallback,
    /// This process, by the limits it has at hand, because the service that a client asks failed.
    Local,
    /// Nobody: the request passes unseen, because the service that a client asks failed.
    Allow,
    /// Nobody: the request is denied unseen, because the service that a client asks failed.
    Deny,
}

impl Source {
    /// The word for it in responses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Shared => "redis",
            Self::Fallback => "fallback",
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// Whether the counters that all nodes share were out of reach.
    pub const fn is_makeshift(self) -> bool {
        !matches!(self, Self::Memory | Self::Shared)
    }
}

/// The verdict of one limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitStatus<'a> {
    /// Which of the request's descriptors the limit belongs to, from 0. `None` in the decision of a service,
    /// which does not state it.
    pub descriptor: Option<usize>,
    /// The rule's name, or its path.
    pub rule: &'a str,
    /// The limit's name, or its window.
    pub name: &'a str,
    /// The name the rules give it, if they do.
    pub given_name: Option<&'a str>,
    /// The numbers. A service states requests and window alone; its limits read as fixed windows.
    pub limit: &'a Limit,
    /// Whether this limit alone lets the request pass.
    pub allowed: bool,
    /// Whether it is evaluated and counted only.
    pub shadow: bool,
    /// Units left after this decision.
    pub remaining: u64,
    /// Until the limit is untouched again if nothing more is charged.
    pub reset_after: Duration,
    /// When the same request would pass this limit; [`Duration::MAX`] for never. Absent if it does. Of a
    /// concurrency limit, whose slots return at any time, when to ask again: a second at most.
    pub retry_after: Option<Duration>,
}

impl Decision {
    /// Creates the decision that a service has stated.
    ///
    /// ```
    /// use tidegate::{Decision, Source, Statement};
    ///
    /// let unseen =
    ///     Statement { allowed: true, source: Source::Allow, limits: Vec::new(), deciding: None, rendered: None };
    /// let decision = Decision::stated(unseen);
    /// assert!(decision.allowed() && decision.decided_by().is_none());
    /// ```
    pub fn stated(statement: Statement) -> Self {
        Self(Basis::Stated(Arc::new(statement)))
    }

    /// Returns the charges that the decision rests on, if this process made it.
    #[inline]
    pub(crate) fn charged(&self) -> Option<&Charged> {
        match &self.0 {
            Basis::Charged(charged) => Some(charged),
            Basis::Stated(_) => None,
        }
    }

    #[inline]
    pub(crate) fn charged_mut(&mut self) -> Option<&mut Charged> {
        match &mut self.0 {
            Basis::Charged(charged) => Some(charged),
            Basis::Stated(_) => None,
        }
    }

    /// Returns whether the request may pass.
    #[inline]
    pub fn allowed(&self) -> bool {
        match &self.0 {
            Basis::Charged(charged) => charged.summary.allowed,
            Basis::Stated(statement) => statement.allowed,
        }
    }

    /// Returns who made the decision.
    pub fn source(&self) -> Source {
        match &self.0 {
            Basis::Charged(charged) => charged.summary.source,
            Basis::Stated(statement) => statement.source,
        }
    }

    /// Returns the decision with another source, for a caller that decides by a limiter because something else has
    /// failed.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        match &mut self.0 {
            Basis::Charged(charged) => charged.summary.source = source,
            Basis::Stated(statement) => Arc::make_mut(statement).source = source,
        }
        self
    }

    /// Returns how long to wait before the same request may pass: exact, if nothing else is charged until then, but for
    /// concurrency limits, whose slots may return at any time: a second at most. `None` if it passes,
    /// [`Duration::MAX`] if it never will.
    pub fn retry_after(&self) -> Option<Duration> {
        if self.source() == Source::Deny {
            return Some(UNSEEN_RETRY);
        }
        self.decided_by().filter(|_| !self.allowed())?.retry_after
    }

    /// Returns the units left of the tightest limit; `None` if no limit applies.
    pub fn remaining(&self) -> Option<u64> {
        match &self.0 {
            Basis::Charged(charged) => charged.remaining(),
            Basis::Stated(statement) => statement.remaining(),
        }
    }

    /// Returns the limit that decided: of a denial the one that takes longest to free, else the tightest.
    pub fn decided_by(&self) -> Option<LimitStatus<'_>> {
        match &self.0 {
            Basis::Charged(charged) => charged.deciding().map(|item| charged.status(item)),
            Basis::Stated(statement) => statement.deciding().map(StatedLimit::status),
        }
    }

    /// Returns the `metadata` of the rule that decided; `None` if it has none, or if a service decided.
    pub fn metadata(&self) -> Option<&serde_json::Map<String, serde_json::Value>> {
        let charged = self.charged()?;
        let rule = charged.rule(charged.deciding()?);
        (!rule.metadata.is_empty()).then_some(&rule.metadata)
    }

    /// Returns the verdict of each limit, in the order of descriptors, rules and limits.
    pub fn limits(&self) -> impl Iterator<Item = LimitStatus<'_>> {
        match &self.0 {
            Basis::Charged(charged) => Statuses::Charged(charged, charged.items.iter()),
            Basis::Stated(statement) => Statuses::Stated(statement.limits.iter()),
        }
    }

    /// Returns the response as the service rendered it, to be passed on unchanged; `None` if no service decided.
    pub fn rendered(&self) -> Option<&Rendered> {
        match &self.0 {
            Basis::Charged(_) => None,
            Basis::Stated(statement) => statement.rendered.as_ref(),
        }
    }

    /// Returns whether a descriptor of the request, counted from 0, ends at a rule that is unlimited. Returns false
    /// if a service decided, which does not state it.
    pub fn unlimited(&self, request: &Request<'_>, descriptor: usize) -> bool {
        let Some(rules) = self.charged().map(Charged::rules) else { return false };
        let Some((_, domain)) = rules.domain(request.domain()) else { return false };
        let Some((entries, _)) = request.descriptors().nth(descriptor) else { return false };
        request.limits_of(descriptor).is_none()
            && domain.rule_of(rules.seed, entries).is_some_and(|rule| rule.unlimited)
    }
}

impl From<Charged> for Decision {
    #[inline]
    fn from(charged: Charged) -> Self {
        Self(Basis::Charged(charged))
    }
}

/// Iterates over the verdicts of limits.
enum Statuses<'a> {
    Charged(&'a Charged, slice::Iter<'a, Item>),
    Stated(slice::Iter<'a, StatedLimit>),
}

impl<'a> Iterator for Statuses<'a> {
    type Item = LimitStatus<'a>;

    fn next(&mut self) -> Option<LimitStatus<'a>> {
        match self {
            Self::Charged(charged, items) => items.next().map(|item| charged.status(item)),
            Self::Stated(limits) => limits.next().map(StatedLimit::status),
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<_> = self.limits().collect();
        f.debug_struct("Decision")
            .field("allowed", &self.allowed())
            .field("limits", &limits)
            .finish_non_exhaustive()
    }
}

/// `allowed`, or `denied by user (minute): 0 of 10 left, retry after 3.2s`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(by) = self.decided_by() else {
            let unseen =
                if self.allowed() { "allowed: no limit applies" } else { "denied: nobody could tell" };
            return f.write_str(unseen);
        };
        let LimitStatus { rule, name, remaining, .. } = by;
        let of = by.limit.burst();
        match by.retry_after.filter(|_| !self.allowed()) {
            None => write!(f, "allowed by {rule} ({name}): {remaining} of {of} left"),
            Some(Duration::MAX) => {
                write!(f, "denied by {rule} ({name}): the cost is more than the limit of {of} ever holds")
            }
            Some(retry) => {
                write!(f, "denied by {rule} ({name}): {remaining} of {of} left, retry after {retry:.1?}")
            }
        }
    }
}
