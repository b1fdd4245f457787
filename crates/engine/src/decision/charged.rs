//! Decisions that this process made, with the rules they were made under.

use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Limit, NEVER_US, Outcome, Verdict};
use tidegate_stores::Force;

use super::{LimitStatus, Source};
use crate::inline::Brought;
use crate::rules::current::Rules;
use crate::rules::find::{Applied, Hit};
use crate::rules::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet};
use crate::standing::Standing;
use crate::tenants::own::OwnPlace;

/// When a request that found no free slot may come back. A slot is free as soon as its holder returns it, which
/// nobody can foretell; the time-out of the first one is only the latest it can be.
const SLOT_RETRY: Duration = Duration::from_secs(1);

/// The verdicts of the limits that a request was charged to.
pub(crate) struct Charged {
    // Dropped first: whatever comes after something that may panic is dropped in two places, and then all
    // of this is too long to be inlined.
    pub(crate) items: Items,
    pub(crate) domain: u32,
    pub(crate) allowed: bool,
    pub(crate) source: Source,
    pub(crate) context: Context,
}

/// The rules and limits that a decision was made under, for the names in it. Dropped by hand, with one test for
/// what is seldom there: where dropping a decision is not inlined, all of it is written to memory for that alone.
pub(crate) struct Context {
    pub(crate) rules: ManuallyDrop<Rules>,
    /// The limits that the request brought along.
    pub(crate) brought: ManuallyDrop<Brought>,
}

impl Drop for Context {
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

    #[inline]
    pub(crate) fn new(hit: &Hit<'_>, limit: &Applied<'_>, force: Force) -> Self {
        let standing = Standing::new(hit.tier, limit.own, force);
        Self { limit: limit.index, standing, ..Self::holders(hit, force) }
    }

    /// An item of the rule's limit on holders.
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

    /// An item of a rule's own limit, by a request's only entry.
    #[inline]
    pub(crate) fn of(rule: &RuleEntry, limit: u16, verdict: Verdict) -> Self {
        Self { rule: rule.number, descriptor: 0, limit, standing: rule.standing, verdict }
    }

    /// An item of a rule's own limit that is going to be settled.
    #[inline]
    pub(crate) fn planned(rule: u32, descriptor: u16, limit: u16, standing: Standing) -> Self {
        let verdict = Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 };
        Self { rule, descriptor, limit, standing, verdict }
    }

    /// An item of a rule's only limit, or of what the tenant has in its place.
    #[inline]
    pub(crate) fn only(rule: &RuleEntry, standing: Standing, verdict: Verdict) -> Self {
        Self { rule: rule.number, descriptor: 0, limit: 0, standing, verdict }
    }

    /// Whether the limit is evaluated and counted only.
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

impl Charged {
    #[inline]
    pub(crate) fn new(rules: Rules, domain: u32, allowed: bool, items: Items) -> Self {
        let context = Context { rules: ManuallyDrop::new(rules), brought: ManuallyDrop::default() };
        Self { items, domain, allowed, source: Source::Memory, context }
    }

    pub(crate) fn rules(&self) -> &RuleSet {
        &self.context.rules
    }

    /// The item of the limit that decided: of a denial the one that takes longest to free, else the tightest.
    pub(crate) fn deciding(&self) -> Option<&Item> {
        if self.allowed {
            return self.enforced().min_by_key(|item| item.verdict.remaining);
        }
        // Every enforced limit must free, but only one of the quotas: the first that does.
        let retry = |item: &&Item| item.verdict.retry_after_us();
        let of = |force: Force| self.items.iter().filter(move |item| item.standing.force() == force);
        of(Force::Enforced).chain(of(Force::Quota).min_by_key(retry)).max_by_key(retry)
    }

    /// Units left of the tightest enforced limit.
    pub(super) fn remaining(&self) -> Option<u64> {
        self.enforced().map(|item| item.verdict.remaining).min()
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

    fn enforced(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| !item.standing.is_shadow())
    }

    fn tree(&self) -> &DomainTree {
        &self.context.rules.domains[self.domain as usize]
    }

    pub(crate) fn rule(&self, item: &Item) -> &RuleEntry {
        if item.rule != Item::BROUGHT {
            return &self.tree().rules[item.rule as usize];
        }
        let found = self.context.brought.of(usize::from(item.descriptor));
        let limits = found.expect("a decision keeps the limits that its request brought along");
        &limits.0
    }

    /// The numbers a limit was held against.
    pub(crate) fn numbers(&self, item: &Item) -> Option<&Limit> {
        match item.standing.own() {
            Some(place) => self.context.rules.tenants.at(place)?.limit.as_ref(),
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

impl Clone for Charged {
    fn clone(&self) -> Self {
        let Context { rules, brought } = &self.context;
        let context = Context { rules: rules.clone(), brought: brought.clone() };
        let Self { domain, allowed, source, .. } = *self;
        Self { items: self.items.clone(), domain, allowed, source, context }
    }
}
