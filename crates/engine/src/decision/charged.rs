//! Decisions of this process, with the rules they were made under.

use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Limit, NEVER_US, Outcome, Verdict};
use tidegate_stores::Force;

use super::{LimitStatus, Source};
use crate::inline::DescriptorLimits;
use crate::limit_terms::LimitTerms;
use crate::rules::current::Rules;
use crate::rules::find::{Applied, Hit};
use crate::rules::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet};
use crate::tenants::own::OverrideIndex;

/// The longest `retry_after` of a request that found no free slot. A slot may be released at any time; the first
/// timeout is only the latest possible time.
const SLOT_RETRY: Duration = Duration::from_secs(1);

/// A decision of this process: the limits that a request was charged to, with their verdicts.
pub(crate) struct Charged {
    // Dropped first: whatever comes after something that may panic is dropped in two places, and then all
    // of this is too long to be inlined.
    pub(crate) items: Items,
    pub(crate) summary: Summary,
    pub(crate) context: Context,
}

/// What all verdicts of a decision come to.
#[derive(Clone, Copy)]
pub(crate) struct Summary {
    /// The index of the request's domain; 0 if the rules do not have it.
    pub(crate) domain: u32,
    pub(crate) allowed: bool,
    pub(crate) source: Source,
}

/// The rules and inline limits that a decision was made under, for the names in it. The hand-written drop has a
/// single branch for all that is rare, so that it is inlined. Otherwise the decision would be written to memory only
/// to be dropped.
pub(crate) struct Context {
    pub(crate) rules: ManuallyDrop<Rules>,
    /// The inline limits of the request.
    pub(crate) inline_limits: ManuallyDrop<DescriptorLimits>,
}

impl Drop for Context {
    #[inline]
    fn drop(&mut self) {
        let rules = self.rules.put_back();
        if rules.is_some() || !self.inline_limits.is_none() {
            free(rules, mem::take(&mut self.inline_limits));
        }
    }
}

#[cold]
#[inline(never)]
fn free(rules: Option<Arc<RuleSet>>, inline_limits: DescriptorLimits) {
    drop((rules, inline_limits));
}

pub(crate) type Items = SmallVec<[Item; 4]>;

/// The verdict of one limit, and the position of the limit in the rules, for its names.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) rule: u32,
    pub(crate) descriptor: u16,
    /// Index of the limit in the rule's set for the tier; in its own where the numbers are the tenant's.
    limit: u16,
    terms: LimitTerms,
    pub(crate) verdict: Verdict,
}

const _: () = assert!(size_of::<Item>() == 48, "an item has no room to spare");

impl Item {
    /// The index of the rule's limit on slot holders.
    pub(crate) const CONCURRENCY: u16 = u16::MAX;

    /// The rule number of inline limits, which belong to no rule of the domain.
    pub(crate) const INLINE: u32 = u32::MAX;

    #[inline]
    pub(crate) fn new(hit: &Hit<'_>, limit: &Applied<'_>, force: Force) -> Self {
        let terms = LimitTerms::new(hit.tier, limit.own, force);
        Self { limit: limit.index, terms, ..Self::holders(hit, force) }
    }

    /// Creates the item of the rule's limit on slot holders.
    #[inline]
    pub(crate) fn holders(hit: &Hit<'_>, force: Force) -> Self {
        Self {
            rule: hit.rule.number,
            descriptor: hit.descriptor,
            limit: Self::CONCURRENCY,
            terms: LimitTerms::new(hit.tier, OverrideIndex::NONE, force),
            verdict: Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 },
        }
    }

    /// Creates the item of a rule's own limit, by a request's only entry.
    #[inline]
    pub(crate) fn of(rule: &RuleEntry, limit: u16, verdict: Verdict) -> Self {
        Self { rule: rule.number, descriptor: 0, limit, terms: rule.terms, verdict }
    }

    /// Creates the item of a rule's own limit, before it is settled.
    #[inline]
    pub(crate) fn planned(rule: u32, descriptor: u16, limit: u16, terms: LimitTerms) -> Self {
        let verdict = Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 };
        Self { rule, descriptor, limit, terms, verdict }
    }

    /// Creates the item of a rule's only limit, or of the override that replaces it.
    #[inline]
    pub(crate) fn only(rule: &RuleEntry, terms: LimitTerms, verdict: Verdict) -> Self {
        Self { rule: rule.number, descriptor: 0, limit: 0, terms, verdict }
    }

    /// Returns what a denial by this limit does to the request.
    #[inline]
    pub(crate) fn force(&self) -> Force {
        self.terms.force()
    }

    /// Returns whether the limit is evaluated and counted only.
    pub(crate) fn is_shadow(&self) -> bool {
        self.terms.is_shadow()
    }

    /// Returns the limit in its rule, for its names. The numbers may be those of an override.
    pub(crate) fn entry<'r>(&self, rule: &'r RuleEntry) -> Option<&'r LimitEntry> {
        match self.limit {
            Self::CONCURRENCY => rule.concurrency.as_deref(),
            index if self.terms.own().is_some() => rule.limits.get(usize::from(index)),
            index => rule.limits_for(self.terms.tier()).get(usize::from(index)),
        }
    }
}

impl Charged {
    /// Creates the decision of a request that no limit applies to. A plan adds limits and their verdicts.
    #[inline]
    pub(crate) fn new(rules: Rules) -> Self {
        let context = Context { rules: ManuallyDrop::new(rules), inline_limits: ManuallyDrop::default() };
        let summary = Summary { domain: 0, allowed: true, source: Source::Memory };
        Self { items: Items::new(), summary, context }
    }

    /// Creates the decision of a request to which one limit applies.
    #[inline]
    pub(crate) fn of_one(rules: Rules, domain: u32, allowed: bool, item: Item) -> Self {
        let mut items = Items::new();
        items.push(item);
        Self { items, summary: Summary { domain, allowed, source: Source::Memory }, ..Self::new(rules) }
    }

    /// Creates the decision of a request that the first `count` of these limits allow.
    #[inline]
    pub(crate) fn of_items(rules: Rules, domain: u32, items: [Item; 4], count: usize) -> Self {
        let items = Items::from_buf_and_len(items, count);
        Self { items, summary: Summary { domain, allowed: true, source: Source::Memory }, ..Self::new(rules) }
    }

    pub(crate) fn rules(&self) -> &RuleSet {
        &self.context.rules
    }

    /// Returns the item of the limit that decided: of a denial the one that takes longest to free, else the tightest.
    pub(crate) fn deciding(&self) -> Option<&Item> {
        if self.summary.allowed {
            return self.enforced().min_by_key(|item| item.verdict.remaining);
        }
        // Every enforced limit must free, but only one of the quotas: the first that does.
        let retry = |item: &&Item| item.verdict.retry_after_us();
        let of = |force: Force| self.items.iter().filter(move |item| item.terms.force() == force);
        of(Force::Enforced).chain(of(Force::Quota).min_by_key(retry)).max_by_key(retry)
    }

    /// Returns the units left of the tightest enforced limit.
    pub(super) fn remaining(&self) -> Option<u64> {
        self.enforced().map(|item| item.verdict.remaining).min()
    }

    /// Returns why a limit is evaluated and counted only; `None` if it is enforced.
    pub(crate) fn not_enforced(&self, item: &Item) -> Option<String> {
        let rule = self.rule(item);
        match item.terms.force() {
            Force::Enforced => None,
            Force::Quota => Some("quota_mode: it denies only together with every other quota".to_owned()),
            Force::Shadow if rule.shadow_mode => Some("shadow_mode".to_owned()),
            Force::Shadow => Some(format!("this key is outside enforce_percent: {}", rule.enforce_percent)),
        }
    }

    fn enforced(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| !item.terms.is_shadow())
    }

    fn tree(&self) -> &DomainTree {
        &self.context.rules.domains[self.summary.domain as usize]
    }

    pub(crate) fn rule(&self, item: &Item) -> &RuleEntry {
        if item.rule != Item::INLINE {
            return &self.tree().rules[item.rule as usize];
        }
        let found = self.context.inline_limits.of(usize::from(item.descriptor));
        let limits = found.expect("a decision keeps the inline limits of its request");
        &limits.0
    }

    /// Returns the numbers that applied, which may be those of an override.
    pub(crate) fn numbers(&self, item: &Item) -> Option<&Limit> {
        match item.terms.own() {
            Some(index) => self.context.rules.tenants.at(index)?.limit.as_ref(),
            None => item.entry(self.rule(item)).map(|entry| &entry.limit),
        }
    }

    /// Returns where the numbers come from: `rule`, `tier pro` or `override`.
    pub(crate) fn origin(&self, item: &Item) -> String {
        if item.terms.own().is_some() {
            return "override".to_owned();
        }
        let rule = self.rule(item);
        let tier = item.terms.tier().filter(|_| item.limit != Item::CONCURRENCY);
        let changed = item.entry(rule).is_some_and(|entry| {
            rule.limits.get(usize::from(entry.number)).is_none_or(|base| base.limit != entry.limit)
        });
        match tier.filter(|_| changed) {
            Some(tier) => format!("tier {}", self.tree().tiers[usize::from(tier)]),
            None => "rule".to_owned(),
        }
    }

    pub(crate) fn status(&self, item: &Item) -> LimitStatus<'_> {
        let rule = self.rule(item);
        let entry = item.entry(rule).expect("an item's limit is in the rules the decision was made under");
        let numbers = self.numbers(item).unwrap_or(&entry.limit);
        LimitStatus {
            descriptor: Some(usize::from(item.descriptor)),
            rule: &rule.id,
            name: &entry.name,
            given_name: entry.given_name.as_deref(),
            limit: numbers,
            allowed: item.verdict.allowed(),
            shadow: item.terms.is_shadow(),
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

impl Clone for Charged {
    fn clone(&self) -> Self {
        let Context { rules, inline_limits } = &self.context;
        let context = Context { rules: rules.clone(), inline_limits: inline_limits.clone() };
        Self { items: self.items.clone(), summary: self.summary, context }
    }
}
