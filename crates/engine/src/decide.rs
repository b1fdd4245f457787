//! From a request to a decision.

use smallvec::SmallVec;
use tidegate_stores::{Charge, Force, MemoryStore, Verdicts, blocked};

use crate::decision::{Decision, Item, Items, Rules};
use crate::request::Request;
use crate::rules::find::{Aspect, Hit};
use crate::rules::tree::{DomainTree, LimitEntry, RuleSet};

pub(crate) use tidegate_stores::Intent;

/// Which limits a call is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that count requests; a queue may be waited in if `hold`.
    Rates { hold: bool },
    /// Those that count holders, on behalf of this lease and those after it, one for each.
    Holders { lease: u64 },
}

/// A request's charges, in the order of descriptors, rules and limits.
pub(crate) type Charges<'r> = SmallVec<[Charge<'r>; 4]>;

/// Decides a request.
#[inline]
pub(crate) fn decide(
    rules: Rules,
    store: &MemoryStore,
    request: &Request<'_>,
    scope: Scope,
    intent: Intent,
) -> Decision {
    // Most requests have one descriptor, and that one rule.
    let Some((number, hit)) = find_one(&rules, request) else {
        return decide_any(rules, store, request, scope, intent);
    };
    let ([entry], Scope::Rates { hold }) = (&**hit.limits(), scope) else {
        let (items, allowed) = settle_rule(&rules, store, &hit, scope, intent);
        return Decision::new(rules, number, items, allowed);
    };
    let charge = Charge { hold, count_denied: rules.count_denied, ..charge(&hit, entry) };
    let mut item = Item::new(&hit, 0, charge.force);
    item.verdict = store.settle_one(&charge, intent);
    let allowed = item.verdict.allowed() || charge.force == Force::Shadow;
    let mut items = Items::new();
    items.push(item);
    Decision::new(rules, number, items, allowed)
}

/// Settles the limits of a single rule.
#[inline(never)]
fn settle_rule(
    rules: &RuleSet,
    store: &MemoryStore,
    hit: &Hit<'_>,
    scope: Scope,
    intent: Intent,
) -> (Items, bool) {
    let (mut charges, mut items) = (Charges::new(), Items::new());
    add(rules, hit, scope, &mut charges, &mut items);
    let allowed = settle(store, &charges, &mut items, intent);
    (items, allowed)
}

/// The rule of a request that has but one, unless others of its domain may take part.
#[inline]
fn find_one<'r>(rules: &'r RuleSet, request: &Request<'_>) -> Option<(u32, Hit<'r>)> {
    let (entries, cost) = request.only_descriptor()?;
    let (number, domain) = rules.domain(request.domain())?;
    if domain.hierarchical || domain.has_replaces {
        return None;
    }
    let hit = rules.find_leaf(domain, request, Aspect { index: 0, entries, cost })?;
    Some((number, hit))
}

#[inline(never)]
fn decide_any(
    rules: Rules,
    store: &MemoryStore,
    request: &Request<'_>,
    scope: Scope,
    intent: Intent,
) -> Decision {
    let (mut charges, mut items) = (Charges::new(), Items::new());
    let domain = plan(&rules, request, scope, &mut charges, &mut items);
    let allowed = settle(store, &charges, &mut items, intent);
    // The charges borrow the rules, which the decision takes along.
    drop(charges);
    Decision::new(rules, domain, items, allowed).with(request)
}

/// Adds the charges of the limits a request falls under, and an item for each that says which
/// limit it came from. Answers the number of the domain.
pub(crate) fn plan<'r>(
    rules: &'r RuleSet,
    request: &'r Request<'_>,
    scope: Scope,
    charges: &mut Charges<'r>,
    items: &mut Items,
) -> u32 {
    let Some((number, domain)) = rules.domain(request.domain()) else { return 0 };
    rules.find(domain, request, |hit| add(rules, &hit, scope, charges, items));
    if domain.has_replaces {
        replace(rules, domain, request, charges, items);
    }
    number
}

/// Adds the charges of one rule's limits.
#[inline]
fn add<'r>(rules: &RuleSet, hit: &Hit<'r>, scope: Scope, charges: &mut Charges<'r>, items: &mut Items) {
    match scope {
        Scope::Rates { hold } => {
            for (index, entry) in hit.limits().iter().enumerate() {
                let charge = Charge { hold, count_denied: rules.count_denied, ..charge(hit, entry) };
                items.push(Item::new(hit, index as u16, charge.force));
                charges.push(charge);
            }
        }
        Scope::Holders { lease } => {
            if let Some(entry) = &hit.rule.concurrency {
                items.push(Item::new(hit, Item::CONCURRENCY, Force::Enforced));
                let lease = lease.wrapping_add(charges.len() as u64);
                charges.push(Charge { lease, ..charge(hit, entry) });
            }
        }
    }
}

/// The charges of a request alone.
pub(crate) fn charges<'r>(rules: &'r RuleSet, request: &'r Request<'_>, scope: Scope) -> Charges<'r> {
    let mut charges = Charges::new();
    plan(rules, request, scope, &mut charges, &mut Items::new());
    charges
}

/// Settles charges, gives each item its verdict, and answers whether the request passes.
#[inline]
pub(crate) fn settle(store: &MemoryStore, charges: &Charges<'_>, items: &mut Items, intent: Intent) -> bool {
    let mut verdicts = Verdicts::new();
    store.settle_now(charges, intent, &mut verdicts);
    for (item, verdict) in items.iter_mut().zip(&verdicts) {
        item.verdict = *verdict;
    }
    !blocked(charges, &verdicts)
}

/// Drops the limits that other rules of the request stand in for, by name.
#[cold]
fn replace(
    rules: &RuleSet,
    domain: &DomainTree,
    request: &Request<'_>,
    charges: &mut Charges<'_>,
    items: &mut Items,
) {
    let replacements = replacements(rules, domain, request);
    for index in (0..items.len()).rev() {
        // A limit that a request brings along has its own place, whatever its name.
        let rule = domain.rules.get(items[index].rule as usize);
        let entry = rule.and_then(|rule| items[index].entry(rule));
        if entry.is_some_and(|entry| entry.replaced_by(&replacements).is_some()) {
            items.remove(index);
            charges.remove(index);
        }
    }
}

/// Names of limits that do not apply to a request, each with the rule that stands in. An unlimited
/// rule can, too, so this looks at the rules and not at the limits.
pub(crate) fn replacements<'r>(
    rules: &'r RuleSet,
    domain: &'r DomainTree,
    request: &'r Request<'_>,
) -> Vec<(&'r str, &'r str)> {
    let mut found = Vec::new();
    rules.find(domain, request, |hit| {
        let rule = hit.rule;
        found.extend(rule.replaces.iter().map(|name| (&**name, &*rule.id)));
    });
    found
}

impl LimitEntry {
    /// The rule that stands in for this limit, if one does.
    pub(crate) fn replaced_by<'r>(&self, replacements: &[(&'r str, &'r str)]) -> Option<&'r str> {
        let given = self.given_name.as_deref()?;
        replacements.iter().find(|(name, _)| *name == given).map(|(_, rule)| *rule)
    }
}

#[inline]
fn charge<'r>(hit: &Hit<'r>, entry: &'r LimitEntry) -> Charge<'r> {
    let force = if hit.rule.shadow_mode || !hit.enforced {
        Force::Shadow
    } else if hit.rule.quota_mode {
        Force::Quota
    } else {
        Force::Enforced
    };
    Charge { force, ..Charge::new(hit.key.of_limit(entry.salt), &entry.limit, hit.cost) }
}
