//! From a request to a decision.

use std::hint::cold_path;

use tidegate_core::{Key, Verdict};
use tidegate_stores::{Intent, MemoryStore};

use crate::backend::Settlement;
use crate::decision::{Decision, Item, Items};
use crate::limiter::Inner;
use crate::plan::{Plan, Scope};
use crate::request::Request;
use crate::rules::current::{CurrentRules, Rules};
use crate::rules::tree::{RuleEntry, RuleSet, Way};

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
    let general = |rules| decide_now(rules, memory, request, Scope::RATES, Intent::Take);
    let Some((entry, cost)) = only_entry else { return general(rules) };
    let Some((domain, rule, value)) = rules.find_only(domain, entry) else { return general(rules) };
    let [entry] = &*rule.limits else {
        return match take_several(&rules, memory, rule, rule.key_of(value), cost) {
            Some(verdicts) => {
                let items = std::array::from_fn(|index| Item::of(rule, index as u16, verdicts[index]));
                let items = Items::from_buf_and_len(items, rule.limits.len());
                Decision::new(rules, domain, true, items)
            }
            None => general(rules),
        };
    };
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
            return general(rules);
        }
    }
    let key = rule.key_of(value).of_limit(salt);
    let Some(verdict) = memory.settle_cell(key, limit, cost, rules.count_denied) else {
        return general(rules);
    };
    let mut items = Items::new();
    items.push(Item::only(rule, standing, verdict));
    let allowed = verdict.allowed() || rule.standing.is_shadow();
    Decision::new(rules, domain, allowed, items)
}

/// Takes `cost` of each limit of a rule that has none or several, if no tenant has others and all have room.
#[inline(never)]
fn take_several(
    rules: &RuleSet,
    memory: &MemoryStore,
    rule: &RuleEntry,
    key: Key,
    cost: u64,
) -> Option<[Verdict; 4]> {
    let limits = rule.limits.iter().map(|entry| (entry.salt, &entry.limit));
    if rule.way > rules.short { None } else { memory.settle_cells(key, limits, cost) }
}

/// Decides a request of any shape by the counters of this process: several descriptors, several limits, any
/// algorithm.
#[inline(never)]
pub(crate) fn decide_now(
    rules: Rules,
    memory: &MemoryStore,
    request: &Request<'_>,
    scope: Scope,
    intent: Intent,
) -> Decision {
    let plan = Plan::new(&rules, request, scope);
    let settlement = Settlement::of_memory(memory, &plan.charges, intent);
    let concluded = plan.conclude(settlement);
    Decision::concluded(rules, concluded, request)
}

impl Inner {
    /// Decides a request by whichever backend there is.
    pub(crate) async fn decide(&self, request: &Request<'_>, scope: Scope, intent: Intent) -> Decision {
        let rules = self.rules.load();
        let plan = self.backend.plan(&rules, request, scope);
        let settlement = match self.backend.try_now(&plan, intent) {
            Some(settlement) => settlement,
            None => self.backend.settle(&plan, intent).await,
        };
        let concluded = plan.conclude(settlement);
        Decision::concluded(rules, concluded, request)
    }
}
