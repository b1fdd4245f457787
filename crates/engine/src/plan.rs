//! What a call charges: the limits that a request falls under, each with its counter.
//!
//! A plan is made once per call, under the rules in force at that moment, and holds on to them until the call has
//! been decided. Whatever is reloaded while a store is waited for, the call ends under the rules it began with.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Limit, Verdict};
use tidegate_stores::{Charge, Force, blocked};

use crate::backend::Settlement;
use crate::counts::RuleCounts;
use crate::decision::{Item, Items, Source};
use crate::request::Request;
use crate::rules::find::{Hit, Hits};
use crate::rules::model::OnStoreError;
use crate::rules::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet};
use crate::standing::Standing;

/// Which limits a call is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that count requests; a queue may be waited in if `hold`.
    Rates { hold: bool },
    /// Those that count holders, on behalf of the slot with this number and those after it, one for each limit.
    Holders { slot: u64 },
}

impl Scope {
    /// The limits that count requests, for a caller that does not wait.
    pub(crate) const RATES: Self = Self::Rates { hold: false };
}

/// A request's charges, in the order of descriptors, rules and limits.
pub(crate) type Charges<'r> = SmallVec<[Charge<'r>; 4]>;

/// The charges of one call, and for each of them the limit it is about.
pub(crate) struct Plan<'r> {
    pub(crate) rules: &'r RuleSet,
    /// Index of the request's domain; 0 where the rules do not know it.
    pub(crate) domain: u32,
    pub(crate) charges: Charges<'r>,
    /// As many as there are charges, in their order.
    pub(crate) items: Items,
    scope: Scope,
}

/// A plan whose charges have been settled. It borrows nothing, so that a decision can take the rules along.
pub(crate) struct Concluded {
    pub(crate) domain: u32,
    pub(crate) allowed: bool,
    pub(crate) source: Source,
    pub(crate) items: Items,
}

impl<'r> Plan<'r> {
    /// Finds the limits that a request falls under.
    #[expect(clippy::inline_always, reason = "a plan is too large to be handed around")]
    #[inline(always)]
    pub(crate) fn new(rules: &'r RuleSet, request: &'r Request<'_>, scope: Scope) -> Self {
        let mut plan = Self { rules, domain: 0, charges: Charges::new(), items: Items::new(), scope };
        if let Some((number, domain)) = rules.domain(request.domain()) {
            plan.domain = number;
            rules.find((number, domain), request, &mut plan);
            if domain.has_replaces {
                plan.replace((number, domain), request);
            }
        }
        plan
    }

    /// Gives each item its verdict, and folds them into one.
    #[expect(clippy::inline_always, reason = "see `Plan::new`")]
    #[inline(always)]
    pub(crate) fn conclude(self, settlement: Settlement) -> Concluded {
        let Settlement { verdicts, source } = settlement;
        let Self { domain, charges, mut items, .. } = self;
        let mut allowed = true;
        for (item, verdict) in items.iter_mut().zip(&verdicts) {
            item.verdict = *verdict;
            allowed &= verdict.allowed();
        }
        // Mostly every limit allows it, and then nobody has to ask what each denial means.
        Concluded { domain, allowed: allowed || !blocked(&charges, &verdicts), source, items }
    }

    /// Whether the request passes by these verdicts.
    pub(crate) fn passes(&self, verdicts: &[Verdict]) -> bool {
        !blocked(&self.charges, verdicts)
    }

    /// The charges that were taken if the request passed: shadow limits that denied took nothing.
    pub(crate) fn taken(&self, verdicts: &[Verdict]) -> Charges<'r> {
        let taken = self.charges.iter().zip(verdicts);
        let taken = taken.filter(|(charge, verdict)| verdict.allowed() || charge.count_denied);
        taken.map(|(charge, _)| *charge).collect()
    }

    /// The rule that a charge belongs to, unless the request brought its limit along.
    fn rule(&self, charge: usize) -> Option<&'r RuleEntry> {
        let domain = self.rules.domains.get(self.domain as usize)?;
        domain.rules.get(self.items[charge].rule as usize)
    }

    /// What the rule of a charge says for when the shared store fails.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory does not fail"))]
    pub(crate) fn on_store_error(&self, charge: usize) -> OnStoreError {
        self.rule(charge).map_or_else(OnStoreError::default, |rule| rule.on_store_error)
    }

    /// Where the decisions of a charge's rule are counted.
    pub(crate) fn counts(&self, charge: usize) -> Arc<RuleCounts> {
        self.rule(charge).map(|rule| Arc::clone(&rule.counts)).unwrap_or_default()
    }

    /// Keeps the counters of one first entry together, as far as that entry tells counters apart: what is decided
    /// together is then mostly settled on one server of a store that has several.
    pub(crate) fn keep_together(&mut self, request: &Request<'_>) {
        let domain = self.rules.domains.get(self.domain as usize);
        for (charge, item) in self.charges.iter_mut().zip(&self.items) {
            let Some((entries, _)) = request.descriptors().nth(usize::from(item.descriptor)) else {
                continue;
            };
            let rule = domain.and_then(|domain| domain.rules.get(item.rule as usize));
            if let Some(part) = self.rules.part_of(request.domain(), rule, entries) {
                charge.part = part;
            }
        }
    }

    /// Adds the charges of one rule's limits for a tenant, or of its limit on holders.
    #[inline(never)]
    fn add_special(&mut self, hit: &Hit<'r>) {
        match self.scope {
            Scope::Rates { hold } => hit.each_limit(self.rules.seed, |limit| {
                let charge = charge_of(hit, limit.salt, limit.limit);
                self.items.push(Item::new(hit, &limit, charge.force));
                self.charges.push(Charge { hold, count_denied: self.rules.count_denied, ..charge });
            }),
            Scope::Holders { slot } => {
                if let Some(entry) = &hit.rule.concurrency {
                    self.items.push(Item::holders(hit, Force::Enforced));
                    let lease = slot.wrapping_add(self.charges.len() as u64);
                    self.charges.push(Charge { lease, ..charge_of(hit, entry.salt, &entry.limit) });
                }
            }
        }
    }

    /// Drops the limits that other rules of the request stand in for, by name.
    #[cold]
    fn replace(&mut self, domain: (u32, &DomainTree), request: &Request<'_>) {
        let replacements = replacements(self.rules, domain, request);
        for index in (0..self.items.len()).rev() {
            // A limit that a request brings along has its own place, whatever its name.
            let rule = domain.1.rules.get(self.items[index].rule as usize);
            let entry = rule.and_then(|rule| self.items[index].entry(rule));
            if entry.is_some_and(|entry| entry.replaced_by(&replacements).is_some()) {
                self.items.remove(index);
                self.charges.remove(index);
            }
        }
    }
}

impl<'r> Hits<'r> for Plan<'r> {
    #[expect(clippy::inline_always, reason = "part of the loop that plans a request")]
    #[inline(always)]
    fn add(&mut self, hit: Hit<'r>) {
        let Scope::Rates { hold } = self.scope else { return self.add_special(&hit) };
        if hit.tier.is_some() || hit.own.is_some() {
            return self.add_special(&hit);
        }
        let standing = if hit.enforced { hit.rule.standing } else { Standing::of_rule(Force::Shadow) };
        let (force, count_denied) = (standing.force(), self.rules.count_denied);
        for (index, entry) in hit.rule.limits.iter().enumerate() {
            self.items.push(Item::planned(hit.rule.number, hit.descriptor, index as u16, standing));
            let charge = Charge::new(hit.key.of_limit(entry.salt), &entry.limit, hit.cost);
            self.charges.push(Charge { force, hold, count_denied, ..charge });
        }
    }
}

/// Names of limits that do not apply to a request, each with the rule that stands in. An unlimited
/// rule can, too, so this looks at the rules and not at the limits.
pub(crate) fn replacements<'r>(
    rules: &'r RuleSet,
    domain: (u32, &'r DomainTree),
    request: &'r Request<'_>,
) -> Vec<(&'r str, &'r str)> {
    let mut hits = Vec::new();
    rules.find(domain, request, &mut hits);
    let replaced = |hit: Hit<'r>| hit.rule.replaces.iter().map(move |name| (&**name, &*hit.rule.id));
    hits.into_iter().flat_map(replaced).collect()
}

impl LimitEntry {
    /// The rule that stands in for this limit, if one does.
    pub(crate) fn replaced_by<'r>(&self, replacements: &[(&'r str, &'r str)]) -> Option<&'r str> {
        let given = self.given_name.as_deref()?;
        replacements.iter().find(|(name, _)| *name == given).map(|(_, rule)| *rule)
    }
}

fn charge_of<'r>(hit: &Hit<'_>, salt: u64, limit: &'r Limit) -> Charge<'r> {
    let force = if hit.enforced { hit.rule.standing.force() } else { Force::Shadow };
    Charge { force, ..Charge::new(hit.key.of_limit(salt), limit, hit.cost) }
}
