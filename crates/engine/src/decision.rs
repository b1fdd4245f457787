//! The outcome of a request.

use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Limit, NEVER_US, Outcome, Verdict};
use tidegate_stores::Force;

use crate::inline::Brought;
use crate::rendered::Rendered;
use crate::request::Request;
use crate::rules::current::Rules;
use crate::rules::find::{Applied, Hit};
use crate::rules::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet};
use crate::standing::Standing;
use crate::tenants::own::OwnPlace;

/// Whether a request may pass, and what each of its limits said.
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
pub struct Decision {
    // Dropped first: whatever comes after something that may panic is dropped in two places, and then all
    // of this is too long to be inlined.
    pub(crate) items: Items,
    pub(crate) domain: u32,
    pub(crate) allowed: bool,
    pub(crate) source: Source,
    pub(crate) under: Under,
}

/// What a decision was made under, for the names in it. Dropped by hand, with one test for whatever is
/// seldom there: where dropping a decision is not inlined, all of it is written to memory for that alone.
pub(crate) struct Under {
    pub(crate) rules: ManuallyDrop<Rules>,
    /// The limits the request brought along.
    pub(crate) brought: ManuallyDrop<Brought>,
}

impl Drop for Under {
    #[inline]
    fn drop(&mut self) {
        let rules = self.rules.put_back();
        if rules.is_some() || !self.brought.is_none() {
            free(rules, mem::take(&mut self.brought));
        }
    }
}

#[cold]
#[inline(never)]
fn free(rules: Option<Arc<RuleSet>>, brought: Brought) {
    drop((rules, brought));
}

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
    /// This process, because the remote service failed: by the limits at hand.
    Local,
    /// The same: let pass unseen.
    Allow,
    /// The same: denied unseen.
    Deny,
}

impl Source {
    /// The word for it in answers.
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

    /// Whether the counters that all share were out of reach.
    pub const fn is_makeshift(self) -> bool {
        !matches!(self, Self::Memory | Self::Shared)
    }
}

/// When whoever found no free slot may come back. A slot is free as soon as its holder returns it, which nobody
/// can foretell; that the first one times out is only the latest it can be.
const SLOT_RETRY: Duration = Duration::from_secs(1);

/// When whoever was denied unseen may come back.
const UNSEEN_RETRY: Duration = Duration::from_secs(1);

pub(crate) type Items = SmallVec<[Item; 4]>;

/// One limit's verdict, with where to find its names.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) rule: u32,
    pub(crate) descriptor: u16,
    /// Index of the limit in the rule's set for the tier; in its own where the numbers are the tenant's.
    limit: u16,
    standing: Standing,
    pub(crate) verdict: Verdict,
}

const _: () = assert!(size_of::<Item>() == 48, "an item has no room to spare");

impl Item {
    /// Stands for the rule's limit on holders.
    pub(crate) const CONCURRENCY: u16 = u16::MAX;

    /// The number of every rule that a request brought along.
    pub(crate) const BROUGHT: u32 = u32::MAX;

    /// The number of every rule in the answer of a service.
    const ANSWERED: u32 = u32::MAX - 1;

    #[inline]
    pub(crate) fn new(hit: &Hit<'_>, limit: &Applied<'_>, force: Force) -> Self {
        let standing = Standing::new(hit.tier, limit.own, force);
        Self { limit: limit.index, standing, ..Self::holders(hit, force) }
    }

    /// Of the rule's limit on holders.
    #[inline]
    pub(crate) fn holders(hit: &Hit<'_>, force: Force) -> Self {
        Self {
            rule: hit.rule.number,
            descriptor: hit.descriptor,
            limit: Self::CONCURRENCY,
            standing: Standing::new(hit.tier, OwnPlace::NONE, force),
            verdict: Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 },
        }
    }

    /// Of a plain rule, by a request's only entry.
    #[inline]
    pub(crate) fn plain(rule: &RuleEntry, limit: u16, verdict: Verdict) -> Self {
        Self { rule: rule.number, descriptor: 0, limit, standing: rule.standing, verdict }
    }

    /// Of a rule's only limit, or of what the tenant has in its place.
    #[inline]
    pub(crate) fn only(rule: &RuleEntry, standing: Standing, verdict: Verdict) -> Self {
        Self { rule: rule.number, descriptor: 0, limit: 0, standing, verdict }
    }

    /// The same of a rule whose limits depend on the tenant.
    #[inline]
    pub(crate) fn personal(
        rule: &RuleEntry,
        tier: Option<u16>,
        limit: &Applied<'_>,
        verdict: Verdict,
    ) -> Self {
        let standing = Standing::new(tier, limit.own, rule.standing.force());
        Self { standing, ..Self::plain(rule, limit.index, verdict) }
    }

    /// Of the limit in that place of a service's answer.
    #[cfg(feature = "remote")]
    pub(crate) fn answered(place: u16, shadow: bool, verdict: Verdict) -> Self {
        let force = if shadow { Force::Shadow } else { Force::Enforced };
        let standing = Standing::of_rule(force);
        Self { rule: Self::ANSWERED, descriptor: place, limit: 0, standing, verdict }
    }

    /// Whether it is evaluated and counted only.
    pub(crate) fn is_shadow(&self) -> bool {
        self.standing.is_shadow()
    }

    /// The limit this is about, of the rule it belongs to; for its names, as its numbers may be others.
    pub(crate) fn entry<'r>(&self, rule: &'r RuleEntry) -> Option<&'r LimitEntry> {
        match self.limit {
            Self::CONCURRENCY => rule.concurrency.as_ref(),
            index if self.standing.own().is_some() => rule.limits.get(usize::from(index)),
            index => rule.limits_for(self.standing.tier()).get(usize::from(index)),
        }
    }
}

/// What one limit said.
#[derive(Clone, Copy, Debug)]
pub struct LimitStatus<'a> {
    /// Which of the request's descriptors it belongs to, from 0. A remote service does not tell: 0.
    pub descriptor: usize,
    /// The rule's name, or its path.
    pub rule: &'a str,
    /// The limit's name, or its window.
    pub name: &'a str,
    /// The name the rules give it, if they do.
    pub given_name: Option<&'a str>,
    /// The numbers.
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
    /// The decision on a request that no limit applies to. What limits say is added in its place:
    /// the list is too large to be handed around.
    #[inline]
    pub(crate) fn under(rules: Rules) -> Self {
        Self::new(rules, 0, true, Items::new())
    }

    #[inline]
    pub(crate) fn new(rules: Rules, domain: u32, allowed: bool, items: Items) -> Self {
        let under = Under { rules: ManuallyDrop::new(rules), brought: ManuallyDrop::default() };
        Self { items, domain, allowed, source: Source::Memory, under }
    }

    /// Whether the request may pass.
    #[inline]
    pub fn allowed(&self) -> bool {
        self.allowed
    }

    /// Who made it.
    pub fn source(&self) -> Source {
        self.source
    }

    /// How long to wait before the same request may pass: exact, if nothing else is charged until
    /// then, but for concurrency limits, whose slots may return at any time: a second at most. `None` if it passes, [`Duration::MAX`] if it never will.
    pub fn retry_after(&self) -> Option<Duration> {
        if self.source == Source::Deny {
            return Some(UNSEEN_RETRY);
        }
        self.decided_by().filter(|_| !self.allowed)?.retry_after
    }

    /// Units left of the tightest limit; `None` where no limit applies.
    pub fn remaining(&self) -> Option<u64> {
        self.enforced().map(|item| item.verdict.remaining).min()
    }

    /// The limit that decided: of a denial the one that takes longest to free, else the tightest.
    pub fn decided_by(&self) -> Option<LimitStatus<'_>> {
        self.deciding().map(|item| self.status(item))
    }

    /// What the rules say about the rule that decided, for others to read; `None` if they say nothing.
    pub fn metadata(&self) -> Option<&serde_json::Map<String, serde_json::Value>> {
        let rule = self.rule(self.deciding()?);
        (!rule.metadata.is_empty()).then_some(&rule.metadata)
    }

    pub(crate) fn deciding(&self) -> Option<&Item> {
        if let Some(rendered) = self.rendered() {
            return self.items.get(rendered.deciding?);
        }
        if self.allowed {
            return self.enforced().min_by_key(|item| item.verdict.remaining);
        }
        // Every enforced limit must free, but only one of the quotas: the first that does.
        let retry = |item: &&Item| item.verdict.retry_after_us();
        let of = |force: Force| self.items.iter().filter(move |item| item.standing.force() == force);
        of(Force::Enforced).chain(of(Force::Quota).min_by_key(retry)).max_by_key(retry)
    }

    /// What each limit said, in the order of descriptors, rules and limits.
    pub fn limits(&self) -> impl Iterator<Item = LimitStatus<'_>> {
        self.items.iter().map(|item| self.status(item))
    }

    /// How long to hold the request before it passes, where a queue says so.
    pub(crate) fn wait_us(&self) -> u64 {
        let waits = self.items.iter().filter(|item| !item.standing.is_shadow());
        waits
            .map(|item| if let Outcome::Held { wait_us } = item.verdict.outcome { wait_us } else { 0 })
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn rules(&self) -> &RuleSet {
        &self.under.rules
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Why a limit is evaluated and counted only, if it is.
    pub(crate) fn not_enforced(&self, item: &Item) -> Option<String> {
        let rule = self.rule(item);
        match item.standing.force() {
            Force::Enforced => None,
            Force::Quota => Some("quota_mode: it denies only together with every other quota".to_owned()),
            Force::Shadow if rule.shadow_mode => Some("shadow_mode".to_owned()),
            Force::Shadow => Some(format!("this key is outside enforce_percent: {}", rule.enforce_percent)),
        }
    }

    /// The answer as the service rendered it, if one decided: to be passed on as it is.
    pub fn rendered(&self) -> Option<&Rendered> {
        self.under.brought.rendered()
    }

    fn enforced(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| !item.standing.is_shadow())
    }

    fn tree(&self) -> &DomainTree {
        &self.under.rules.domains[self.domain as usize]
    }

    pub(crate) fn rule(&self, item: &Item) -> &RuleEntry {
        if item.rule < Item::ANSWERED {
            return &self.tree().rules[item.rule as usize];
        }
        let found = self.under.brought.of(usize::from(item.descriptor));
        let limits = found.expect("a decision keeps the limits that its request brought along");
        &limits.0
    }

    /// Whether a descriptor of the request, counted from 0, ends at a rule that is unlimited.
    pub fn unlimited(&self, request: &Request<'_>, descriptor: usize) -> bool {
        let Some((_, domain)) = self.under.rules.domain(request.domain()) else { return false };
        let Some((entries, _)) = request.descriptors().nth(descriptor) else { return false };
        request.limits_of(descriptor).is_none()
            && domain.rule_of(self.under.rules.seed, entries).is_some_and(|rule| rule.unlimited)
    }

    /// The numbers a limit was held against.
    pub(crate) fn numbers(&self, item: &Item) -> Option<&Limit> {
        match item.standing.own() {
            Some(place) => self.under.rules.tenants.at(place)?.limit.as_ref(),
            None => item.entry(self.rule(item)).map(|entry| &entry.limit),
        }
    }

    /// Where the numbers come from: `rule`, `tier pro` or `override`.
    pub(crate) fn origin(&self, item: &Item) -> String {
        if item.standing.own().is_some() {
            return "override".to_owned();
        }
        let rule = self.rule(item);
        let tier = item.standing.tier().filter(|_| item.limit != Item::CONCURRENCY);
        let changed = item.entry(rule).is_some_and(|entry| {
            rule.limits.get(usize::from(entry.number)).is_none_or(|base| base.limit != entry.limit)
        });
        match tier.filter(|_| changed) {
            Some(tier) => format!("tier {}", self.tree().tiers[usize::from(tier)]),
            None => "rule".to_owned(),
        }
    }

    fn status(&self, item: &Item) -> LimitStatus<'_> {
        let rule = self.rule(item);
        let entry = item.entry(rule).expect("an item's limit is in the rules the decision was made under");
        let numbers = self.numbers(item).unwrap_or(&entry.limit);
        LimitStatus {
            // A service does not tell.
            descriptor: if item.rule == Item::ANSWERED { 0 } else { usize::from(item.descriptor) },
            rule: &rule.id,
            name: &entry.name,
            given_name: entry.given_name.as_deref(),
            limit: numbers,
            allowed: item.verdict.allowed(),
            shadow: item.standing.is_shadow(),
            remaining: item.verdict.remaining,
            reset_after: Duration::from_micros(item.verdict.reset_after_us),
            retry_after: item.verdict.retry_after_us().map(|us| match numbers.algorithm() {
                Algorithm::Concurrency if us != NEVER_US => duration(us).min(SLOT_RETRY),
                _ => duration(us),
            }),
        }
    }
}

fn duration(us: u64) -> Duration {
    if us == NEVER_US { Duration::MAX } else { Duration::from_micros(us) }
}

impl Clone for Decision {
    fn clone(&self) -> Self {
        let Under { rules, brought } = &self.under;
        let under = Under { rules: rules.clone(), brought: brought.clone() };
        let Self { domain, allowed, source, .. } = *self;
        Self { items: self.items.clone(), domain, allowed, source, under }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<_> = self.limits().collect();
        f.debug_struct("Decision")
            .field("allowed", &self.allowed)
            .field("limits", &limits)
            .finish_non_exhaustive()
    }
}

/// `allowed`, or `denied by user (minute): 0 of 10 left, retry after 3.2s`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(by) = self.decided_by() else {
            let unseen = if self.allowed { "allowed: no limit applies" } else { "denied: nobody could tell" };
            return f.write_str(unseen);
        };
        let LimitStatus { rule, name, remaining, .. } = by;
        let of = by.limit.burst();
        match by.retry_after.filter(|_| !self.allowed) {
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
