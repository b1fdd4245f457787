//! The charges of a call: the limits that a request falls under, each with its counter.
//!
//! A plan is made once per call, from the rules in force at that moment. It borrows the decision under construction,
//! which holds on to these rules. If the rules are reloaded while the call waits for a store, the call still ends
//! under the rules it began with.

use smallvec::SmallVec;
use tidegate_core::{Key, Limit, Micros, Verdict};
use tidegate_stores::{Charge, Force, Intent, MemoryStore, VerdictSink, blocked_by};

use crate::decision::{Charged, Item, Items, Source, Summary};
use crate::request::Request;
use crate::rules::find::{Hit, Hits};
use crate::rules::model::OnStoreError;
use crate::rules::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet};

/// Which limits a call charges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The limits that count requests. If `hold`, the caller can wait in queues.
    Rates { hold: bool },
    /// The limits that count slot holders. The first of them is charged on behalf of the slot with this number, each
    /// further one on behalf of the next number.
    Holders { slot: u64 },
}

impl Scope {
    /// The limits that count requests, for a caller that does not wait.
    pub(crate) const RATES: Self = Self::Rates { hold: false };
}

/// The charges of a request, in the order of descriptors, rules and limits.
pub(crate) type Charges<'d> = SmallVec<[Charge<'d>; 4]>;

/// The charges of one call, and the decision that their verdicts are written into.
pub(crate) struct Plan<'d> {
    pub(crate) rules: &'d RuleSet,
    pub(crate) charges: Charges<'d>,
    /// The limits that the decision rests on: one per charge, in the same order.
    pub(crate) items: &'d mut Items,
    summary: &'d mut Summary,
    scope: Scope,
}

/// Writes verdicts into the items of a decision.
struct ItemVerdicts<'a>(&'a mut [Item]);

impl VerdictSink for ItemVerdicts<'_> {
    #[inline]
    fn verdict_mut(&mut self, index: usize) -> &mut Verdict {
        &mut self.0[index].verdict
    }
}

impl<'d> Plan<'d> {
    /// Finds the limits that a request falls under, by the rules of the decision.
    pub(crate) fn new(charged: &'d mut Charged, request: &'d Request<'_>, scope: Scope) -> Self {
        let mut plan = Self::empty(charged, request, scope);
        plan.find(request);
        plan
    }

    /// Creates a plan without charges. Where every instruction counts, [`Plan::find`] adds them without moving it.
    #[inline]
    pub(crate) fn empty(charged: &'d mut Charged, request: &Request<'_>, scope: Scope) -> Self {
        let Charged { items, summary, context } = charged;
        if !request.inline_limits().is_none() {
            *context.inline_limits = request.inline_limits().clone();
        }
        Self { rules: &context.rules, charges: Charges::new(), items, summary, scope }
    }

    /// Adds the charges of the limits that a request falls under.
    #[inline]
    pub(crate) fn find(&mut self, request: &'d Request<'_>) {
        let rules = self.rules;
        if let Some((number, domain)) = rules.domain(request.domain()) {
            self.summary.domain = number;
            rules.find((number, domain), request, self);
            if domain.has_replaces {
                self.replace((number, domain), request);
            }
        }
    }

    /// Settles the charges by the counters of this process, and returns when that was.
    #[inline]
    pub(crate) fn settle_in(&mut self, memory: &MemoryStore, intent: Intent) -> Micros {
        let settled = memory.settle_now(&self.charges, intent, &mut ItemVerdicts(self.items));
        // If every limit allows the request, it does not matter what a denial by one of them would mean.
        self.summary.allowed = settled.all_allowed || !self.is_blocked();
        self.summary.source = Source::Memory;
        settled.at
    }

    /// Writes the verdicts of all charges into the decision.
    pub(crate) fn conclude(&mut self, verdicts: &[Verdict], source: Source) {
        for (item, verdict) in self.items.iter_mut().zip(verdicts) {
            item.verdict = *verdict;
        }
        self.summary.allowed = !self.is_blocked();
        self.summary.source = source;
    }

    /// Folds the verdicts into one: whether the request is denied.
    fn is_blocked(&self) -> bool {
        blocked_by(self.items.iter().map(|item| (item.force(), &item.verdict)))
    }

    /// Returns whether the request passes, once the charges are settled.
    #[inline]
    pub(crate) fn allowed(&self) -> bool {
        self.summary.allowed
    }

    /// Returns who settled the charges.
    pub(crate) fn source(&self) -> Source {
        self.summary.source
    }

    /// Returns the settled charges, each with its verdict.
    pub(crate) fn settled(&self) -> impl Iterator<Item = (&Charge<'d>, &Verdict)> {
        self.charges.iter().zip(self.items.iter().map(|item| &item.verdict))
    }

    /// Returns the charges that were taken if the request passed. Shadow limits that denied took nothing.
    pub(crate) fn taken(&self) -> Charges<'d> {
        let taken = self.settled().filter(|(charge, verdict)| verdict.allowed() || charge.count_denied);
        taken.map(|(charge, _)| *charge).collect()
    }

    /// Returns the rule that a charge belongs to; `None` for an inline limit.
    pub(crate) fn rule(&self, charge: usize) -> Option<&'d RuleEntry> {
        let domain = self.rules.domains.get(self.summary.domain as usize)?;
        domain.rules.get(self.items[charge].rule as usize)
    }

    /// Returns the policy of a charge's rule for when the shared store fails.
    pub(crate) fn on_store_error(&self, charge: usize) -> OnStoreError {
        self.rule(charge).map_or_else(OnStoreError::default, |rule| rule.on_store_error)
    }

    /// Puts the counters that have the same first entry into the same partition, as far as the entry is part of
    /// their identity. Then the charges of a request are mostly settled on one server of a store that has several.
    pub(crate) fn keep_together(&mut self, request: &Request<'_>) {
        let domain = self.rules.domains.get(self.summary.domain as usize);
        for (charge, item) in self.charges.iter_mut().zip(&*self.items) {
            let Some((entries, _)) = request.descriptors().nth(usize::from(item.descriptor)) else {
                continue;
            };
            let rule = domain.and_then(|domain| domain.rules.get(item.rule as usize));
            if let Some(partition) = self.rules.partition_of(request.domain(), rule, entries) {
                charge.partition = partition;
            }
        }
    }

    /// Adds the charge of a rule's own limit. Most rules have one, and adding one takes fewer registers than a loop.
    #[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
    #[inline(always)]
    fn add_limit(
        &mut self,
        (rule, index, entry): (&'d RuleEntry, u16, &'d LimitEntry),
        key: Key,
        (descriptor, cost): (u16, u64),
        hold: bool,
    ) {
        self.items.push(Item::planned(rule.number, descriptor, index, rule.terms));
        let (force, count_denied) = (rule.terms.force(), self.rules.count_denied);
        let charge = Charge::new(key.of_limit(entry.salt), &entry.limit, cost);
        self.charges.push(Charge { force, hold, count_denied, ..charge });
    }

    /// Adds the charges of a rule's own limits.
    #[inline(never)]
    fn add_limits(&mut self, rule: &'d RuleEntry, key: Key, descriptor_and_cost: (u16, u64), hold: bool) {
        for (index, entry) in rule.limits.iter().enumerate() {
            self.add_limit((rule, index as u16, entry), key, descriptor_and_cost, hold);
        }
    }

    /// Adds the charges of a rule whose limits depend on the tenant or the key, or of its limit on slot holders.
    #[inline(never)]
    fn add_hit(&mut self, hit: &Hit<'d>) {
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

    /// Drops the limits that other rules of the request replace by name.
    #[cold]
    fn replace(&mut self, domain: (u32, &DomainTree), request: &Request<'_>) {
        let replacements = replacements(self.rules, domain, request);
        for index in (0..self.items.len()).rev() {
            // An inline limit belongs to no rule of the domain, and is never replaced.
            let rule = domain.1.rules.get(self.items[index].rule as usize);
            let entry = rule.and_then(|rule| self.items[index].entry(rule));
            if entry.is_some_and(|entry| entry.replaced_by(&replacements).is_some()) {
                self.items.remove(index);
                self.charges.remove(index);
            }
        }
    }
}

impl<'d> Hits<'d> for Plan<'d> {
    // Not inlined into the walk over the rules: together they have more values than there are registers.
    #[inline(never)]
    fn add(&mut self, rule: &'d RuleEntry, key: Key, descriptor: u16, cost: u64) {
        let Scope::Rates { hold } = self.scope else {
            return self.add_hit(&Hit::new(rule, key, descriptor, cost));
        };
        match &*rule.limits {
            [entry] => self.add_limit((rule, 0, entry), key, (descriptor, cost), hold),
            _ => self.add_limits(rule, key, (descriptor, cost), hold),
        }
    }

    fn add_special(&mut self, hit: &Hit<'d>) {
        self.add_hit(hit);
    }
}

/// Returns the names of limits that do not apply to a request, each with the rule that replaces it. A rule without
/// limits can replace others, so this looks at the rules and not at the limits.
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
    /// Returns the rule that replaces this limit, if there is one.
    pub(crate) fn replaced_by<'r>(&self, replacements: &[(&'r str, &'r str)]) -> Option<&'r str> {
        let given = self.given_name.as_deref()?;
        replacements.iter().find(|(name, _)| *name == given).map(|(_, rule)| *rule)
    }
}

fn charge_of<'r>(hit: &Hit<'_>, salt: u64, limit: &'r Limit) -> Charge<'r> {
    let force = if hit.enforced { hit.rule.terms.force() } else { Force::Shadow };
    Charge { force, ..Charge::new(hit.key.of_limit(salt), limit, hit.cost) }
}
