//! Finding the rules a request falls under.

use tidegate_core::{Key, KeySeed};

use super::tree::{DomainTree, LimitSet, RuleEntry, RuleSet};
use crate::request::{Entry, Request};

/// A rule that applies to a descriptor of the request.
#[derive(Clone, Copy)]
pub(crate) struct Hit<'r> {
    pub(crate) rule: &'r RuleEntry,
    pub(crate) descriptor: u16,
    pub(crate) tier: Option<u16>,
    /// What the counters of the rule's limits have in common.
    pub(crate) key: Key,
    pub(crate) cost: u64,
    /// Whether this key is in the part of a staged roll-out that is enforced.
    pub(crate) enforced: bool,
}

impl<'r> Hit<'r> {
    #[inline]
    pub(crate) fn limits(&self) -> &'r LimitSet {
        self.rule.limits_for(self.tier)
    }
}

impl RuleSet {
    /// Calls `hit` for each rule that applies, in the order of descriptors: the last entry's, or in a
    /// hierarchical domain every one on the way.
    pub(crate) fn find<'r>(
        &'r self,
        domain: &'r DomainTree,
        request: &'r Request<'_>,
        mut hit: impl FnMut(Hit<'r>),
    ) {
        for (index, (entries, cost)) in request.descriptors().enumerate() {
            if let Some(limits) = request.limits_of(index) {
                hit(Hit {
                    rule: &limits.0,
                    descriptor: index as u16,
                    tier: None,
                    key: limits.0.key.then(RuleEntry::inline_values(self.seed, entries)),
                    cost,
                    enforced: true,
                });
                continue;
            }
            let shortest = if domain.hierarchical { 1 } else { entries.len() };
            for depth in shortest..=entries.len() {
                let aspect = Aspect { index: index as u16, entries: &entries[..depth], cost };
                if let Some(found) = self.find_leaf(domain, request, aspect) {
                    hit(found);
                }
            }
        }
    }

    /// The rule of a descriptor's last entry.
    fn find_leaf<'r, 'e>(
        &self,
        domain: &'r DomainTree,
        request: &Request<'e>,
        aspect: Aspect<'_, 'e>,
    ) -> Option<Hit<'r>> {
        let Aspect { index: descriptor, entries, cost } = aspect;
        let (rule, values) = domain.walk(self.seed, entries)?;
        let tier = if rule.tiers.is_empty() { None } else { domain.tier(self.seed, entries, request) };
        let (key, enforced) = (rule.key.of_values(values), rule.enforces(entries));
        Some(Hit { rule, descriptor, tier, key, cost, enforced })
    }

    /// The rule of a descriptor's only entry, if it is plain; with the number of its domain and what the
    /// counters of its limits have in common.
    #[expect(clippy::inline_always, reason = "where it is called, domain and key are mostly constants")]
    #[inline(always)]
    pub(crate) fn find_plain(&self, domain: &str, entry: Entry<'_>) -> Option<(u32, &RuleEntry, Key)> {
        let (number, domain) = self.domain(domain)?;
        let (rule, values) = domain.first_step(self.seed, &entry)?;
        rule.plain.then(|| (number, rule, rule.key.of_values(values)))
    }
}

/// One descriptor of a request, or the first few entries of one.
#[derive(Clone, Copy)]
struct Aspect<'a, 'e> {
    index: u16,
    entries: &'a [Entry<'e>],
    cost: u64,
}

impl DomainTree {
    /// Follows entries down the tree to the rule of the last one. Along goes the fingerprint of those
    /// values on the way that tell one counter from another.
    fn walk(&self, seed: KeySeed, entries: &[Entry<'_>]) -> Option<(&RuleEntry, Key)> {
        let (first, rest) = entries.split_first()?;
        rest.iter().try_fold(self.first_step(seed, first)?, |(rule, values), entry| {
            // The node of a rule comes after the root and those of the rules before it.
            let (rule, value) = self.step(seed, rule.number + 1, entry)?;
            Some((rule, if rule.varies { values.then(value) } else { values }))
        })
    }

    /// Follows the first entry from the root to a rule. Along goes the fingerprint of its value, if that
    /// tells one counter from another.
    #[expect(clippy::inline_always, reason = "a few instructions on the way of every decision")]
    #[inline(always)]
    fn first_step(&self, seed: KeySeed, entry: &Entry<'_>) -> Option<(&RuleEntry, Key)> {
        let (rule, value) = self.step(seed, 0, entry)?;
        Some((rule, if rule.varies { value } else { Key::NONE }))
    }

    /// Follows one entry from a node to a rule. Along goes the fingerprint of its value.
    #[expect(clippy::inline_always, reason = "a few instructions on the way of every decision")]
    #[inline(always)]
    fn step(&self, seed: KeySeed, node: u32, (key, value): &Entry<'_>) -> Option<(&RuleEntry, Key)> {
        let branch = self.nodes.get(node as usize)?.branch(key, seed)?;
        let hash = seed.text(value);
        let (node, _) = branch.step(value, hash.mark)?;
        let rule = self.rules.get((node as usize).wrapping_sub(1))?;
        Some((rule, hash))
    }

    /// The rule of the last of these entries.
    pub(crate) fn rule_of(&self, seed: KeySeed, entries: &[Entry<'_>]) -> Option<&RuleEntry> {
        self.walk(seed, entries).map(|(rule, _)| rule)
    }

    /// The tier of the descriptor's tenant, or else of the request's.
    fn tier<'a>(&self, seed: KeySeed, entries: &[Entry<'a>], request: &Request<'a>) -> Option<u16> {
        self.tenant(entries, request).and_then(|tenant| self.tier_of(tenant, seed))
    }

    pub(crate) fn tenant<'a>(&self, entries: &[Entry<'a>], request: &Request<'a>) -> Option<&'a str> {
        let key = self.tenant_key.as_deref()?;
        let own = entries.iter().find(|(found, _)| *found == key).map(|(_, value)| *value);
        own.or_else(|| request.value_of(key))
    }
}

impl RuleEntry {
    /// Whether the key of these entries is enforced: the same answer on every node, always.
    fn enforces(&self, entries: &[Entry<'_>]) -> bool {
        match self.enforce_percent {
            100.. => true,
            0 => false,
            percent => self.is_within(percent, entries),
        }
    }

    #[cold]
    fn is_within(&self, percent: u8, entries: &[Entry<'_>]) -> bool {
        let seed = KeySeed(0);
        let varying = entries.iter().zip(&self.path_varies).filter(|(_, varies)| **varies);
        let key = varying.fold(self.stable_key, |key, ((_, value), _)| key.then(seed.text(value)));
        ((key.mark >> 32) * 100) >> 32 < u64::from(percent)
    }
}
