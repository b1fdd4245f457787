//! Finding the rules a request falls under.

use tidegate_core::{Key, KeySeed, Limit};

use super::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet};
use crate::request::{Entry, Request};
use crate::tenants::own::{Own, OwnLimit, OwnPlace};
use crate::tenants::resolve::values_of;

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
    /// What the tenant has in place of some of the rule's limits.
    pub(crate) own: Option<Own<'r>>,
    /// The entries that lead here; none where nobody asks.
    pub(crate) entries: &'r [Entry<'r>],
}

/// A limit that applies to a request.
#[derive(Clone, Copy)]
pub(crate) struct Applied<'r> {
    /// The limit in the rules, for its names.
    pub(crate) entry: &'r LimitEntry,
    /// The numbers, which may be the tenant's own.
    pub(crate) limit: &'r Limit,
    pub(crate) salt: u64,
    /// Index in the rule's set for the tier; in its own where the numbers are the tenant's.
    pub(crate) index: u16,
    pub(crate) own: OwnPlace,
}

impl<'r> Applied<'r> {
    #[inline]
    fn of_rule(index: usize, entry: &'r LimitEntry) -> Self {
        let LimitEntry { limit, salt, .. } = entry;
        Self { entry, limit, salt: *salt, index: index as u16, own: OwnPlace::NONE }
    }
}

impl<'r> Hit<'r> {
    /// What the tenant has in place of the rule's limit of that number.
    #[inline]
    pub(crate) fn own_limit(&self, seed: KeySeed, number: u16) -> Option<(OwnPlace, &'r OwnLimit)> {
        self.own.as_ref()?.limit(number, |given| values_of(seed, given, self.entries))
    }

    /// The limit of a rule that has one and no more, if it applies; where no entry but the tenant's leads
    /// to it.
    #[inline]
    pub(crate) fn only_limit(&self) -> Option<Applied<'r>> {
        let [base] = &*self.rule.limits else { return None };
        let Some((own, found)) = self.own.as_ref().and_then(|own| own.limit(0, |_| 0)) else {
            return self.rule.limits_for(self.tier).first().map(|entry| Applied::of_rule(0, entry));
        };
        let limit = found.limit.as_ref()?;
        Some(Applied { entry: base, limit, salt: found.salt, index: 0, own })
    }

    /// Whether any of the rule's limits apply.
    pub(crate) fn has_limits(&self, seed: KeySeed) -> bool {
        let mut some = false;
        self.each_limit(seed, |_| some = true);
        some
    }

    /// Calls `limit` for each of the rule's limits that apply, in their order.
    #[inline]
    pub(crate) fn each_limit(&self, seed: KeySeed, mut limit: impl FnMut(Applied<'r>)) {
        let set = self.rule.limits_for(self.tier);
        if self.own.is_none() {
            set.iter().enumerate().for_each(|(index, entry)| limit(Applied::of_rule(index, entry)));
            return;
        }
        for base in &self.rule.limits {
            if let Some((own, found)) = self.own_limit(seed, base.number) {
                if let Some(numbers) = &found.limit {
                    let (salt, index) = (found.salt, base.number);
                    limit(Applied { entry: base, limit: numbers, salt, index, own });
                }
            } else if let Some(index) = set.iter().position(|entry| entry.number == base.number) {
                limit(Applied::of_rule(index, &set[index]));
            }
        }
    }
}

impl RuleSet {
    /// Calls `hit` for each rule that applies, in the order of descriptors: the last entry's, or in a
    /// hierarchical domain every one on the way.
    pub(crate) fn find<'r>(
        &'r self,
        (number, domain): (u32, &'r DomainTree),
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
                    own: None,
                    entries,
                });
                continue;
            }
            let shortest = if domain.hierarchical { 1 } else { entries.len() };
            for depth in shortest..=entries.len() {
                let aspect = Aspect { index: index as u16, entries: &entries[..depth], cost };
                if let Some(found) = self.find_leaf((number, domain), request, aspect) {
                    hit(found);
                }
            }
        }
    }

    /// The rule of a descriptor's last entry.
    fn find_leaf<'r>(
        &'r self,
        (number, domain): (u32, &'r DomainTree),
        request: &'r Request<'_>,
        aspect: Aspect<'r>,
    ) -> Option<Hit<'r>> {
        let Aspect { index: descriptor, entries, cost } = aspect;
        let (rule, values) = domain.walk(self.seed, entries)?;
        let tenant = if rule.personal { domain.tenant(entries, request) } else { None };
        let (tier, own) = match tenant {
            Some(tenant) => self.personal((number, domain), rule, tenant, self.seed.text(tenant)),
            None => (None, None),
        };
        let (key, enforced) = (rule.key.of_values(values), rule.enforces(entries));
        Some(Hit { rule, descriptor, tier, key, cost, enforced, own, entries })
    }

    /// The rule that entries lead to, as it applies to a tenant that is named in them or elsewhere.
    pub(crate) fn find_for<'r>(
        &'r self,
        (number, domain): (u32, &'r DomainTree),
        entries: &'r [Entry<'r>],
        tenant: Option<&str>,
    ) -> Option<Hit<'r>> {
        let (rule, values) = domain.walk(self.seed, entries)?;
        let (tier, own) = match tenant.filter(|_| rule.personal) {
            Some(tenant) => self.personal((number, domain), rule, tenant, self.seed.text(tenant)),
            None => (None, None),
        };
        let (key, enforced) = (rule.key.of_values(values), rule.enforces(entries));
        Some(Hit { rule, descriptor: 0, tier, key, cost: 0, enforced, own, entries })
    }

    /// The name of a tenant's tier: its own, or else the one that the domain's rules put it on.
    pub(crate) fn tier_name<'r>(&'r self, domain: &'r DomainTree, tenant: &str) -> Option<&'r str> {
        let own = self.tenants.find(self.seed.text(tenant));
        let own = own.and_then(|own| self.tenants.tier_name(&own));
        own.or_else(|| domain.tier_of(tenant, self.seed).map(|tier| &*domain.tiers[usize::from(tier)]))
    }

    /// What keeps counters of one first entry together, where a store has several servers.
    pub(crate) fn part_of(
        &self,
        domain: &str,
        rule: Option<&RuleEntry>,
        entries: &[Entry<'_>],
    ) -> Option<u64> {
        let (key, value) = entries.first()?;
        // A counter that many values share must be in one place for all of them.
        let told_apart = rule.is_none_or(|rule| rule.path_varies.first().copied().unwrap_or(false));
        let value = if told_apart { value } else { "" };
        Some(self.seed.texts([domain, key, value]).home)
    }

    /// A tenant's tier, if the rule has any, and what it has of its own in place of the rule's limits.
    #[inline]
    pub(crate) fn personal<'r>(
        &'r self,
        (number, domain): (u32, &DomainTree),
        rule: &RuleEntry,
        tenant: &str,
        fingerprint: Key,
    ) -> (Option<u16>, Option<Own<'r>>) {
        let found = self.tenants.find(fingerprint);
        let tier = if rule.tiers.is_empty() {
            None
        } else {
            self.tenants.tier(found.as_ref(), number, || domain.tier_of(tenant, self.seed))
        };
        (tier, found.and_then(|own| own.of_rule(rule.place)))
    }

    /// The rule of a descriptor's only entry, with the number of its domain and the fingerprint of the
    /// entry's value.
    #[expect(clippy::inline_always, reason = "where it is called, domain and key are mostly constants")]
    #[inline(always)]
    pub(crate) fn find_only(&self, domain: &str, entry: Entry<'_>) -> Option<(u32, &RuleEntry, Key)> {
        let (number, domain) = self.domain(domain)?;
        let (rule, value) = domain.step(self.seed, 0, &entry)?;
        Some((number, rule, value))
    }
}

/// One descriptor of a request, or the first few entries of one.
#[derive(Clone, Copy)]
struct Aspect<'a> {
    index: u16,
    entries: &'a [Entry<'a>],
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

    /// The descriptor's tenant, or else the request's.
    pub(crate) fn tenant<'a, 'e: 'a>(&self, entries: &[Entry<'a>], request: &Request<'e>) -> Option<&'a str> {
        let key = self.tenant_key.as_deref()?;
        let own = entries.iter().find(|(found, _)| *found == key).map(|(_, value)| *value);
        own.or_else(|| request.value_of(key))
    }
}

impl RuleEntry {
    /// What the counters of the rule's limits have in common, by the fingerprint of the only entry's value.
    #[expect(clippy::inline_always, reason = "a few instructions on the way of every decision")]
    #[inline(always)]
    pub(crate) fn key_of(&self, value: Key) -> Key {
        self.key.of_values(if self.varies { value } else { Key::NONE })
    }

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
