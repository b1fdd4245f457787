//! The outcome of each rule in a decision, for recorders of decisions.

use std::ops::ControlFlow;

use tidegate_core::Limit;

use crate::decision::{Charged, Decision, Item, LimitStatus};
use crate::inline::INLINE;
use crate::request::{Entry, Request};
use crate::rules::tree::RuleEntry;

/// The result of a rule in a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
    /// The rule allowed the request.
    Allowed,
    /// The rule denied the request.
    Denied,
    /// The rule would have denied the request, but is in shadow mode.
    ShadowDenied,
}

/// The outcome of a rule in a decision.
#[derive(Clone, Copy, Debug)]
pub struct RuleOutcome<'a> {
    /// The name of the rule, or its path.
    pub rule: &'a str,
    /// The descriptor entries that the rule matched, which are its key.
    pub entries: &'a [Entry<'a>],
    /// The units that the request takes; 0 for a peek.
    pub cost: u64,
    /// The result of the rule.
    pub result: RuleResult,
    /// The limit of the rule that denied and has the longest wait; otherwise the one with the fewest units left.
    pub limit: LimitStatus<'a>,
    /// Whether the values of the entries must not be shown.
    pub hide_keys: bool,
    /// The percentages of a limit at which a warning is sent.
    pub warn_at: &'a [u8],
    /// The tenant, if the domain has a tenant key.
    pub tenant: Option<&'a str>,
    /// The tier of the tenant.
    pub tier: Option<&'a str>,
}

/// A limit whose usage passed a percentage of its rule's `warn_at`.
#[derive(Clone, Copy, Debug)]
pub struct Crossing<'a> {
    /// The outcome of the rule. Its `limit` is the one that passed the percentage.
    pub outcome: RuleOutcome<'a>,
    /// The percentage.
    pub percent: u8,
}

impl Decision {
    /// Returns the outcome of each rule, in the order of descriptors and rules. `request` is the request that was
    /// decided. Empty if a service decided.
    pub fn outcomes<'a, 'r: 'a>(&'a self, request: &'a Request<'r>) -> impl Iterator<Item = RuleOutcome<'a>> {
        let charged = self.charged().into_iter();
        charged.flat_map(move |charged| {
            let rules = charged.items.chunk_by(same_rule);
            rules.filter_map(move |items| charged.outcome(request, items, tightest(charged, items)?))
        })
    }

    /// Returns every limit whose usage passed a percentage of its rule's `warn_at` in this decision.
    pub fn crossings<'a, 'r: 'a>(&'a self, request: &'a Request<'r>) -> Vec<Crossing<'a>> {
        let mut crossings = Vec::new();
        let Some(charged) = self.charged() else { return crossings };
        for items in charged.items.chunk_by(same_rule) {
            let Some((_, cost)) = request.descriptors().nth(usize::from(items[0].descriptor)) else {
                continue;
            };
            let _ = charged.each_crossing(charged.rule(&items[0]), items, cost, |item, percent| {
                let outcome = charged.outcome(request, items, item);
                crossings.extend(outcome.map(|outcome| Crossing { outcome, percent }));
                ControlFlow::<()>::Continue(())
            });
        }
        crossings
    }
}

fn same_rule(a: &Item, b: &Item) -> bool {
    (a.rule, a.descriptor) == (b.rule, b.descriptor)
}

/// Returns the limit of a rule that denied and has the longest wait; otherwise the one with the fewest units left.
fn tightest<'c>(charged: &Charged, items: &'c [Item]) -> Option<&'c Item> {
    let enforced_first = |item: &&Item| (!item.is_shadow(), item.verdict.retry_after_us());
    let denied = items.iter().filter(|item| !item.verdict.allowed()).max_by_key(enforced_first);
    let known = |item: &&Item| charged.numbers(item).is_some();
    denied.or_else(|| items.iter().min_by_key(|item| item.verdict.remaining)).filter(known)
}

impl Charged {
    fn outcome<'a, 'r: 'a>(
        &'a self,
        request: &'a Request<'r>,
        items: &[Item],
        item: &'a Item,
    ) -> Option<RuleOutcome<'a>> {
        let rule = self.rule(item);
        let (entries, cost) = request.descriptors().nth(usize::from(item.descriptor))?;
        let tree = self.rules().domain(request.domain()).map(|(_, tree)| tree);
        let tenant = tree.and_then(|tree| tree.tenant(entries, request));
        let tier = tree.zip(tenant).and_then(|(tree, tenant)| self.rules().tier_name(tree, tenant));
        let denied =
            |shadow: bool| items.iter().any(|item| !item.verdict.allowed() && item.is_shadow() == shadow);
        let result = match (denied(false), denied(true)) {
            (true, _) => RuleResult::Denied,
            (false, true) => RuleResult::ShadowDenied,
            (false, false) => RuleResult::Allowed,
        };
        let is_inline = item.rule == Item::INLINE;
        Some(RuleOutcome {
            rule: if is_inline { INLINE } else { &rule.id },
            entries: if is_inline { entries } else { rule.matched(entries) },
            cost,
            result,
            limit: self.status(item),
            hide_keys: rule.hide_keys,
            warn_at: &rule.warn_at,
            tenant,
            tier,
        })
    }

    /// Returns whether a limit of a rule passed a percentage of `warn_at`.
    #[cold]
    pub(crate) fn has_crossed(&self, rule: &RuleEntry, items: &[Item], cost: u64) -> bool {
        self.each_crossing(rule, items, cost, |_, _| ControlFlow::Break(())).is_break()
    }

    /// Visits every limit of a rule that passed a percentage of `warn_at` when this cost was charged.
    fn each_crossing<'c>(
        &self,
        rule: &RuleEntry,
        items: &'c [Item],
        cost: u64,
        mut visit: impl FnMut(&'c Item, u8) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // A denied request charges nothing, or at least nothing that changes the outcome.
        for item in items.iter().filter(|item| item.verdict.allowed()) {
            let of = self.numbers(item).map_or(0, Limit::burst);
            let used = of.saturating_sub(item.verdict.remaining);
            let before = used.saturating_sub(cost);
            for percent in &rule.warn_at {
                let threshold = percent_of(of, *percent);
                if before < threshold && threshold <= used {
                    visit(item, *percent)?;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns a percentage of a number, rounded up, without exceeding 64 bits.
fn percent_of(of: u64, percent: u8) -> u64 {
    let percent = u64::from(percent);
    of / 100 * percent + (of % 100 * percent).div_ceil(100)
}
