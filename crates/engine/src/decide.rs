//! From a request to a decision.

use std::hint::cold_path;

use smallvec::SmallVec;
use tidegate_core::{Key, Limit, Verdict};
use tidegate_stores::{Charge, Force, MemoryStore, Usual, Verdicts, blocked};

use crate::decision::{Decision, Item, Items};
use crate::request::Request;
use crate::rules::current::{CurrentRules, Rules};
use crate::rules::find::{Applied, Hit};
use crate::rules::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet, Way};

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

/// Decides a request and charges it.
///
/// Most requests have one descriptor, that one rule, and every limit of it has room: those go the
/// short way. Whatever is not so has changed nothing when it is found out, and is settled at length.
// Inlined, unlike the longer ways: whoever asks mostly knows the domain, the key and the cost when
// compiling, and then comparing texts is comparing words.
#[expect(clippy::inline_always, reason = "see above")]
#[inline(always)]
pub(crate) fn check(current: &CurrentRules, store: &MemoryStore, request: &Request<'_>) -> Decision {
    // Before anything else is called: what is read later, the compiler has to look up again.
    let (domain, only_entry) = (request.domain(), request.only_entry());
    let rules = current.load();
    let Some((entry, cost)) = only_entry else {
        return decide(rules, store, request, Scope::Rates { hold: false }, Intent::Take);
    };
    let Some((domain, rule, value)) = rules.find_only(domain, entry) else {
        return decide(rules, store, request, Scope::Rates { hold: false }, Intent::Take);
    };
    let key = rule.key_of(value);
    let (allowed, items) = if let [entry] = &*rule.limits {
        let (mut limit, mut salt, mut standing) = (&entry.limit, entry.salt, rule.standing);
        if rule.way > rules.short {
            cold_path();
            let instead = rules.tenants.instead(value, rule.place_if_short);
            if let Some(own) = instead.limit
                && let Some(numbers) = &own.limit
            {
                (limit, salt) = (numbers, own.salt);
                standing = rule.standing.of_tenant(rules.tenants.place(value, instead));
            } else if !instead.is_nothing() || rule.way > Way::Tenant {
                return check_personal(rules, store, request);
            }
        }
        let Some(verdict) = store.settle_usual(key.of_limit(salt), limit, cost, rules.count_denied) else {
            if rule.way > rules.short {
                return check_personal(rules, store, request);
            }
            let spot = Spot { domain, rule: rule.number, key, cost };
            return settle_one(rules, store, spot);
        };
        let mut items = Items::new();
        items.push(Item::only(rule, standing, verdict));
        (verdict.allowed() || rule.standing.is_shadow(), items)
    } else if rule.way > rules.short {
        return check_personal(rules, store, request);
    } else {
        let Some(said) = take_several(rule, store, key, cost) else {
            let spot = Spot { domain, rule: rule.number, key, cost };
            return settle_spot(rules, store, spot);
        };
        let items = std::array::from_fn(|index| Item::plain(rule, index as u16, said[index].into()));
        (true, Items::from_buf_and_len(items, rule.limits.len()))
    };
    Decision::new(rules, domain, allowed, items)
}

/// Where the only entry of a request leads.
#[derive(Clone, Copy)]
struct Spot {
    domain: u32,
    rule: u32,
    key: Key,
    cost: u64,
}

/// Decides a request with one entry that does not lead to a plain rule: where it names the tenant, by the
/// tenant's tier and own limits, and still a short way.
#[inline(never)]
fn check_personal(rules: Rules, store: &MemoryStore, request: &Request<'_>) -> Decision {
    let mut decision = Decision::under(rules);
    let usual = take_personal(&mut decision, store, request);
    if usual.is_none() {
        decide_at_length(&mut decision, store, request, Scope::Rates { hold: false }, Intent::Take);
    }
    decision
}

/// Settles the limits of a tenant that is named by a request's only entry, if that is as usual; else nothing
/// has changed but the items.
#[inline]
fn take_personal(decision: &mut Decision, store: &MemoryStore, request: &Request<'_>) -> Option<()> {
    let Decision { under, domain, allowed, items, .. } = decision;
    let rules: &RuleSet = &under.rules;
    let (entry, cost) = request.only_entry()?;
    let (number, rule, value) = rules.find_only(request.domain(), entry)?;
    if rule.way == Way::Long {
        return None;
    }
    *domain = number;
    let tree = &rules.domains[number as usize];
    let (tier, own) = rules.personal((number, tree), rule, entry.1, value);
    let key = rule.key_of(value);
    let hit = Hit { rule, descriptor: 0, tier, key, cost, enforced: true, own, entries: &[] };
    let Some(limit) = hit.only_limit() else {
        return take_personal_limits(rules, store, &hit, items);
    };
    let verdict = store.settle_usual(key.of_limit(limit.salt), limit.limit, cost, rules.count_denied)?;
    *allowed = verdict.allowed() || rule.standing.is_shadow();
    items.push(Item::personal(rule, tier, &limit, verdict));
    Some(())
}

/// Takes the cost of each of a tenant's limits, of which there are none or several, if that is as usual.
#[inline(never)]
fn take_personal_limits(
    rules: &RuleSet,
    store: &MemoryStore,
    hit: &Hit<'_>,
    items: &mut Items,
) -> Option<()> {
    let mut limits = SmallVec::<[(u64, &Limit); 4]>::new();
    hit.each_limit(rules.seed, |limit: Applied<'_>| {
        items.push(Item::personal(
            hit.rule,
            hit.tier,
            &limit,
            Usual { remaining: 0, reset_after_us: 0 }.into(),
        ));
        limits.push((limit.salt, limit.limit));
    });
    let said = store.take_all_usual(hit.key, limits.iter().copied(), hit.cost)?;
    items.iter_mut().zip(said).for_each(|(item, said)| item.verdict = said.into());
    Some(())
}

/// Takes `cost` of each limit of a plain rule that has none or several, if that is as usual.
#[inline(never)]
fn take_several(rule: &RuleEntry, store: &MemoryStore, key: Key, cost: u64) -> Option<[Usual; 4]> {
    let buckets = rule.limits.iter().map(|entry| (entry.salt, &entry.limit));
    store.take_all_usual(key, buckets, cost)
}

/// Settles the only limit of a plain rule at length.
#[inline(never)]
fn settle_one(rules: Rules, store: &MemoryStore, spot: Spot) -> Decision {
    let mut decision = Decision::under(rules);
    let Decision { under, domain, allowed, items, .. } = &mut decision;
    let rules: &RuleSet = &under.rules;
    let rule = &rules.domains[spot.domain as usize].rules[spot.rule as usize];
    *domain = spot.domain;
    if let Some(entry) = rule.limits.first() {
        let charge = Charge::new(spot.key.of_limit(entry.salt), &entry.limit, spot.cost);
        let charge = Charge { count_denied: rules.count_denied, ..charge };
        let verdict = store.settle_one_any(&charge, Intent::Take);
        *allowed = verdict.allowed() || rule.standing.is_shadow();
        items.push(Item::plain(rule, 0, verdict));
    }
    decision
}

/// Settles the limits of a plain rule at length.
#[inline(never)]
fn settle_spot(rules: Rules, store: &MemoryStore, spot: Spot) -> Decision {
    let Spot { domain, rule, key, cost } = spot;
    let rule = &rules.domains[domain as usize].rules[rule as usize];
    let hit = Hit { rule, descriptor: 0, tier: None, key, cost, enforced: true, own: None, entries: &[] };
    let (mut charges, mut items, mut verdicts) = (Charges::new(), Items::new(), Verdicts::new());
    add(&rules, &hit, Scope::Rates { hold: false }, &mut charges, &mut items);
    store.settle_any(&charges, Intent::Take, &mut verdicts);
    let allowed = conclude(&charges, &verdicts, &mut items);
    // They borrow the rules, which the decision takes along.
    drop(charges);
    Decision::new(rules, domain, allowed, items)
}

/// Decides a request in any case.
#[inline(never)]
pub(crate) fn decide(
    rules: Rules,
    store: &MemoryStore,
    request: &Request<'_>,
    scope: Scope,
    intent: Intent,
) -> Decision {
    let mut decision = Decision::under(rules);
    decide_at_length(&mut decision, store, request, scope, intent);
    decision
}

/// The same in the place of a decision that has not been made.
fn decide_at_length(
    decision: &mut Decision,
    store: &MemoryStore,
    request: &Request<'_>,
    scope: Scope,
    intent: Intent,
) {
    let Decision { under, domain, allowed, items, .. } = decision;
    items.clear();
    let rules: &RuleSet = &under.rules;
    let mut charges = Charges::new();
    *domain = plan(rules, request, scope, &mut charges, items);
    *allowed = settle(store, &charges, items, intent);
    // They borrow the rules, which the decision takes along.
    drop(charges);
    *under.brought = request.brought().clone();
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
    let Some(domain) = rules.domain(request.domain()) else { return 0 };
    rules.find(domain, request, |hit| add(rules, &hit, scope, charges, items));
    if domain.1.has_replaces {
        replace(rules, domain, request, charges, items);
    }
    domain.0
}

/// Adds the charges of one rule's limits.
#[inline]
pub(crate) fn add<'r>(
    rules: &'r RuleSet,
    hit: &Hit<'r>,
    scope: Scope,
    charges: &mut Charges<'r>,
    items: &mut Items,
) {
    match scope {
        Scope::Rates { hold } => hit.each_limit(rules.seed, |limit| {
            let charge = charge(hit, limit.salt, limit.limit);
            items.push(Item::new(hit, &limit, charge.force));
            charges.push(Charge { hold, count_denied: rules.count_denied, ..charge });
        }),
        Scope::Holders { lease } => {
            if let Some(entry) = &hit.rule.concurrency {
                items.push(Item::holders(hit, Force::Enforced));
                let lease = lease.wrapping_add(charges.len() as u64);
                charges.push(Charge { lease, ..charge(hit, entry.salt, &entry.limit) });
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
    conclude(charges, &verdicts, items)
}

/// Gives each item its verdict, and answers whether the request passes.
pub(crate) fn conclude(charges: &[Charge<'_>], verdicts: &[Verdict], items: &mut Items) -> bool {
    for (item, verdict) in items.iter_mut().zip(verdicts) {
        item.verdict = *verdict;
    }
    !blocked(charges, verdicts)
}

/// Drops the limits that other rules of the request stand in for, by name.
#[cold]
fn replace(
    rules: &RuleSet,
    domain: (u32, &DomainTree),
    request: &Request<'_>,
    charges: &mut Charges<'_>,
    items: &mut Items,
) {
    let replacements = replacements(rules, domain, request);
    for index in (0..items.len()).rev() {
        // A limit that a request brings along has its own place, whatever its name.
        let rule = domain.1.rules.get(items[index].rule as usize);
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
    domain: (u32, &'r DomainTree),
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
fn force(hit: &Hit<'_>) -> Force {
    if hit.enforced { hit.rule.standing.force() } else { Force::Shadow }
}

#[inline]
fn charge<'r>(hit: &Hit<'_>, salt: u64, limit: &'r Limit) -> Charge<'r> {
    Charge { force: force(hit), ..Charge::new(hit.key.of_limit(salt), limit, hit.cost) }
}
