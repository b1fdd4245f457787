//! From a request to a decision.

use std::hint::cold_path;

use tidegate_core::{Key, Verdict};
use tidegate_stores::{Intent, MemoryStore};

use crate::decision::{Charged, Decision, Item};
use crate::limiter::Inner;
use crate::plan::{Plan, Scope};
use crate::request::Request;
use crate::rules::current::{CurrentRules, Rules};
use crate::rules::tree::{Complexity, RuleEntry, RuleSet};

/// Decides a request by the counters of this process, and charges it.
///
/// Most requests have one descriptor of one entry, which leads to a rule with one limit: those take the short
/// path. It changes nothing before it knows that it applies; all other requests are decided by [`decide_now`].
// Inlined, unlike `decide_now`: the caller mostly knows the domain, the key and the cost when compiling, and then
// comparing texts is comparing words.
#[expect(clippy::inline_always, reason = "see above")]
#[inline(always)]
pub(crate) fn check_now(current: &CurrentRules, memory: &MemoryStore, request: &Request<'_>) -> Decision {
    // Before anything else is called: what is read later, the compiler has to look up again.
    let (domain, only_entry) = (request.domain(), request.only_entry());
    let rules = current.load();
    let general = |rules| decide_now(rules, memory, request, Intent::Take);
    let Some((entry, cost)) = only_entry else { return general(rules) };
    let Some((domain, rule, value)) = rules.find_only(domain, entry) else { return general(rules) };
    let [entry] = &*rule.limits else {
        return match take_several(&rules, memory, rule, rule.key_of(value), cost) {
            Some(verdicts) => {
                let items = std::array::from_fn(|index| Item::of(rule, index as u16, verdicts[index]));
                let count = rule.limits.len();
                Charged::of_items(rules, domain, items, count).into()
            }
            None => general(rules),
        };
    };
    let (mut limit, mut salt, mut terms) = (&entry.limit, entry.salt, rule.terms);
    if rule.complexity > rules.fast_path {
        cold_path();
        let found = rules.tenants.only_override(value, rule.fast_path_index);
        if let Some(own) = found.limit
            && let Some(numbers) = &own.limit
        {
            (limit, salt) = (numbers, own.salt);
            terms = rule.terms.of_tenant(rules.tenants.index_of(value, found));
        } else if !found.is_none() || rule.complexity > Complexity::Tenant {
            return general(rules);
        }
    }
    let key = rule.key_of(value).of_limit(salt);
    let Some(verdict) = memory.settle_cell(key, limit, cost, rules.count_denied) else {
        return general(rules);
    };
    let item = Item::only(rule, terms, verdict);
    let allowed = verdict.allowed() || rule.terms.is_shadow();
    Charged::of_one(rules, domain, allowed, item).into()
}

/// Takes `cost` of each limit of a rule with several limits, if no tenant has others and all of them have room.
#[inline(never)]
fn take_several(
    rules: &RuleSet,
    memory: &MemoryStore,
    rule: &RuleEntry,
    key: Key,
    cost: u64,
) -> Option<[Verdict; 4]> {
    let limits = rule.limits.iter().map(|entry| (entry.salt, &entry.limit));
    if rule.complexity > rules.fast_path { None } else { memory.take_cells(key, &limits, cost) }
}

/// Decides a request of any shape by the counters of this process: several descriptors, several limits, any
/// algorithm.
#[inline(never)]
pub(crate) fn decide_now(
    rules: Rules,
    memory: &MemoryStore,
    request: &Request<'_>,
    intent: Intent,
) -> Decision {
    let mut decision = Decision::from(Charged::new(rules));
    if let Some(charged) = decision.charged_mut() {
        let mut plan = Plan::empty(charged, request, Scope::RATES);
        plan.find(request);
        plan.settle_in(memory, intent);
    }
    decision
}

impl Inner {
    /// Decides a request by the store that nodes share, or by the counters of this process if there is none.
    pub(crate) async fn decide(&self, request: &Request<'_>, scope: Scope, intent: Intent) -> Decision {
        let mut charged = Charged::new(self.rules.load());
        self.backend.settle(&mut self.backend.plan(&mut charged, request, scope), intent).await;
        charged.into()
    }
}
