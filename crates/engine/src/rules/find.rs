//! Finds the rules that apply to a request.

use tidegate_core::{Key, KeySeed, Limit};

use super::tree::{DomainTree, LimitEntry, RuleEntry, RuleSet};
use crate::inline::InlineLimits;
use crate::request::{Entry, Request};
use crate::tenants::own::{OverrideIndex, OverrideLimit, TenantOverrides};
use crate::tenants::resolve::values_of;

/// A rule that applies to a descriptor of the request.
#[derive(Clone, Copy)]
pub(crate) struct Hit<'r> {
    pub(crate) rule: &'r RuleEntry,
    pub(crate) descriptor: u16,
    pub(crate) tier: Option<u16>,
    /// The fingerprint of the rule and the values of the entries. The counters of all limits of the rule
    /// share it.
    pub(crate) key: Key,
    pub(crate) cost: u64,
    /// Whether the rule is enforced for this key, as opposed to shadow mode in a staged roll-out.
    pub(crate) enforced: bool,
    /// The overrides of the tenant for limits of this rule.
    pub(crate) own: Option<TenantOverrides<'r>>,
    /// The entries that lead to the rule; empty if they are not needed.
    pub(crate) entries: &'r [Entry<'r>],
}

/// A limit that applies to a request.
#[derive(Clone, Copy)]
pub(crate) struct Applied<'r> {
    /// The limit in the rules, for its names.
    pub(crate) entry: &'r LimitEntry,
    /// The numbers, which may be those of an override.
    pub(crate) limit: &'r Limit,
    pub(crate) salt: u64,
    /// The index among the rule's limits for the tier; for an override, among the rule's own limits.
    pub(crate) index: u16,
    pub(crate) own: OverrideIndex,
}

impl<'r> Applied<'r> {
    #[inline]
    fn of_rule(index: usize, entry: &'r LimitEntry) -> Self {
        let LimitEntry { limit, salt, .. } = entry;
        Self { entry, limit, salt: *salt, index: index as u16, own: OverrideIndex::NONE }
    }
}

impl<'r> Hit<'r> {
    /// Creates a hit of a rule whose own limits apply.
    #[inline]
    pub(crate) fn new(rule: &'r RuleEntry, key: Key, descriptor: u16, cost: u64) -> Self {
        Self { rule, descriptor, tier: None, key, cost, enforced: true, own: None, entries: &[] }
    }

    /// Returns the tenant's override for the rule's limit with this number, if there is one.
    #[inline]
    pub(crate) fn own_limit(&self, seed: KeySeed, number: u16) -> Option<(OverrideIndex, &'r OverrideLimit)> {
        self.own.as_ref()?.limit(number, |given| values_of(seed, given, self.entries))
    }

    /// Whether any of the rule's limits apply.
    pub(crate) fn has_limits(&self, seed: KeySeed) -> bool {
        let mut some = false;
        self.each_limit(seed, |_| some = true);
        some
    }

    /// Calls `limit` for each limit of the rule that applies, in order.
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

/// Receives the rules that apply to a request, in order.
pub(crate) trait Hits<'r> {
    /// Adds a rule with the same limits for everybody.
    fn add(&mut self, rule: &'r RuleEntry, key: Key, descriptor: u16, cost: u64);

    /// Adds a rule of which the tenant may have other limits, or that is not enforced for all keys.
    fn add_special(&mut self, hit: &Hit<'r>);
}

impl<'r> Hits<'r> for Vec<Hit<'r>> {
    fn add(&mut self, rule: &'r RuleEntry, key: Key, descriptor: u16, cost: u64) {
        self.push(Hit::new(rule, key, descriptor, cost));
    }

    fn add_special(&mut self, hit: &Hit<'r>) {
        self.push(*hit);
    }
}

/// The rules that a request is looked up in.
struct Search<'r, 'q> {
    rules: &'r RuleSet,
    domain: (u32, &'r DomainTree),
    request: &'r Request<'q>,
}

impl<'r> Search<'r, '_> {
    /// Adds to `hits` each rule that applies to one descriptor.
    // Not inlined into the loop over the descriptors: together they have more values than there are registers. For
    // the same reason everything but the commonest case is elsewhere.
    #[inline(never)]
    fn descriptor(&self, index: u16, entries: &'r [Entry<'r>], cost: u64, hits: &mut impl Hits<'r>) {
        let (seed, tree) = (self.rules.seed, self.domain.1);
        let found = match entries {
            [entry] => {
                let step = tree.step(seed, 0, entry);
                step.map(|(rule, value)| (rule, if rule.varies { value } else { Key::NONE }))
            }
            _ if tree.hierarchical => return self.levels(index, entries, cost, hits),
            _ => tree.walk(seed, entries),
        };
        if let Some((rule, values)) = found {
            self.rule(rule, values, entries, (index, cost), hits);
        }
    }

    /// Adds to `hits` the rule of every entry of a descriptor.
    #[inline(never)]
    fn levels(&self, index: u16, entries: &'r [Entry<'r>], cost: u64, hits: &mut impl Hits<'r>) {
        // If the rules end before the entries, those found so far apply.
        let _ = self.domain.1.each_level(self.rules.seed, entries, |depth, rule, values| {
            self.rule(rule, values, &entries[..depth], (index, cost), hits);
        });
    }

    /// Adds to `hits` a rule that entries lead to, as it applies to this request.
    #[inline]
    fn rule(
        &self,
        rule: &'r RuleEntry,
        values: Key,
        entries: &'r [Entry<'r>],
        (descriptor, cost): (u16, u64),
        hits: &mut impl Hits<'r>,
    ) {
        let key = rule.key.of_values(values);
        if rule.personal || rule.enforce_percent < 100 {
            let hit = Hit::new(rule, key, descriptor, cost);
            return self.rules.find_special(self.domain, hit, entries, self.request, hits);
        }
        hits.add(rule, key, descriptor, cost);
    }

    /// Adds to `hits` the rules of a request that has inline limits.
    #[cold]
    #[inline(never)]
    fn inline_limits(&self, hits: &mut impl Hits<'r>) {
        for (index, (entries, cost)) in self.request.descriptors().enumerate() {
            let descriptor = index as u16;
            match self.request.limits_of(index) {
                None => self.descriptor(descriptor, entries, cost, hits),
                Some(InlineLimits(rule, _)) => {
                    let key = rule.key.then(RuleEntry::inline_values(self.rules.seed, entries));
                    hits.add(rule, key, descriptor, cost);
                }
            }
        }
    }
}

impl RuleSet {
    /// Adds to `hits` each rule that applies, in the order of descriptors: the last entry's, or in a
    /// hierarchical domain that of every entry.
    #[inline]
    pub(crate) fn find<'r>(
        &'r self,
        domain: (u32, &'r DomainTree),
        request: &'r Request<'_>,
        hits: &mut impl Hits<'r>,
    ) {
        let search = Search { rules: self, domain, request };
        if !request.inline_limits().is_none() {
            return search.inline_limits(hits);
        }
        for (index, (entries, cost)) in request.descriptors().enumerate() {
            search.descriptor(index as u16, entries, cost, hits);
        }
    }

    /// Adds a rule whose limits may depend on the tenant, or that is not enforced for all keys.
    #[inline(never)]
    fn find_special<'r>(
        &'r self,
        domain: (u32, &'r DomainTree),
        hit: Hit<'r>,
        entries: &'r [Entry<'r>],
        request: &'r Request<'_>,
        hits: &mut impl Hits<'r>,
    ) {
        let rule = hit.rule;
        let differs = rule.personal && !(self.tenants.is_empty() && rule.tiers.is_empty());
        let tenant = if differs { domain.1.tenant(entries, request) } else { None };
        let (tier, own) = match tenant {
            Some(tenant) => self.personal(domain, rule, tenant, self.seed.text(tenant)),
            None => (None, None),
        };
        let enforced = rule.enforces(entries);
        if enforced && tier.is_none() && own.is_none() {
            return hits.add(rule, hit.key, hit.descriptor, hit.cost);
        }
        hits.add_special(&Hit { tier, enforced, own, entries, ..hit });
    }

    /// Returns the rule that entries lead to, as it applies to a tenant, which the entries need not name.
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

    /// Returns the name of a tenant's tier: the one it was given, else the one that the rules of the domain
    /// assign to it.
    pub(crate) fn tier_name<'r>(&'r self, domain: &'r DomainTree, tenant: &str) -> Option<&'r str> {
        let own = self.tenants.find(self.seed.text(tenant));
        let own = own.and_then(|own| self.tenants.tier_name(&own));
        own.or_else(|| domain.tier_of(tenant, self.seed).map(|tier| &*domain.tiers[usize::from(tier)]))
    }

    /// Returns the partition of a request's counters. Counters with the same first entry are in the same
    /// partition, and so on the same server of a store with several servers.
    pub(crate) fn partition_of(
        &self,
        domain: &str,
        rule: Option<&RuleEntry>,
        entries: &[Entry<'_>],
    ) -> Option<u64> {
        let (key, value) = entries.first()?;
        // A counter that several values share must be in the same partition for all of them.
        let varies = rule.is_none_or(|rule| rule.path_varies.first().copied().unwrap_or(false));
        let value = if varies { value } else { "" };
        Some(self.seed.texts([domain, key, value]).home)
    }

    /// Returns a tenant's tier, if the rule has tiers, and the tenant's overrides for limits of the rule.
    #[inline]
    pub(crate) fn personal<'r>(
        &'r self,
        (number, domain): (u32, &DomainTree),
        rule: &RuleEntry,
        tenant: &str,
        fingerprint: Key,
    ) -> (Option<u16>, Option<TenantOverrides<'r>>) {
        let found = self.tenants.find(fingerprint);
        let tier = if rule.tiers.is_empty() {
            None
        } else {
            self.tenants.tier(found.as_ref(), number, || domain.tier_of(tenant, self.seed))
        };
        (tier, found.and_then(|own| own.of_rule(rule.global_index)))
    }

    /// Returns the rule for a descriptor with a single entry, the index of its domain, and the fingerprint of
    /// the entry's value.
    #[expect(clippy::inline_always, reason = "callers mostly pass a constant domain and key")]
    #[inline(always)]
    pub(crate) fn find_only(&self, domain: &str, entry: Entry<'_>) -> Option<(u32, &RuleEntry, Key)> {
        let (number, domain) = self.domain(domain)?;
        let (rule, value) = domain.step(self.seed, 0, &entry)?;
        Some((number, rule, value))
    }
}

impl DomainTree {
    /// Follows entries down the tree. Returns the rule of the last entry, and the fingerprint of the values
    /// that have counters of their own.
    #[inline(never)]
    fn walk(&self, seed: KeySeed, entries: &[Entry<'_>]) -> Option<(&RuleEntry, Key)> {
        let mut last = None;
        self.each_level(seed, entries, |_, rule, values| last = Some((rule, values)))?;
        last
    }

    /// Follows entries down the tree. Calls `level` for each with the number of entries up to it, its rule, and the
    /// fingerprint of the values so far that have counters of their own. Returns `None` if the rules end before the
    /// entries.
    #[expect(clippy::inline_always, reason = "the result of most calls is never written to memory")]
    #[inline(always)]
    fn each_level<'r>(
        &'r self,
        seed: KeySeed,
        entries: &[Entry<'_>],
        mut level: impl FnMut(usize, &'r RuleEntry, Key),
    ) -> Option<()> {
        let (mut node, mut values) = (0, Key::NONE);
        for (depth, entry) in entries.iter().enumerate() {
            let (rule, value) = self.step(seed, node, entry)?;
            // The node of a rule comes after the root and those of the rules before it.
            node = rule.number + 1;
            if rule.varies {
                values = if depth == 0 { value } else { values.then(value) };
            }
            level(depth + 1, rule, values);
        }
        Some(())
    }

    /// Follows one entry from a node. Returns its rule and the fingerprint of its value.
    #[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
    #[inline(always)]
    fn step(&self, seed: KeySeed, node: u32, (key, value): &Entry<'_>) -> Option<(&RuleEntry, Key)> {
        let branch = self.nodes.get(node as usize)?.branch(key, seed)?;
        let hash = seed.text(value);
        let (node, _) = branch.step(value, hash.mark)?;
        let rule = self.rules.get((node as usize).wrapping_sub(1))?;
        Some((rule, hash))
    }

    /// Returns the rule of the last entry.
    pub(crate) fn rule_of(&self, seed: KeySeed, entries: &[Entry<'_>]) -> Option<&RuleEntry> {
        self.walk(seed, entries).map(|(rule, _)| rule)
    }

    /// Returns the tenant that the descriptor names, or else the one that the request names.
    pub(crate) fn tenant<'a, 'e: 'a>(&self, entries: &[Entry<'a>], request: &Request<'e>) -> Option<&'a str> {
        let key = self.tenant_key.as_deref()?;
        let own = entries.iter().find(|(found, _)| *found == key).map(|(_, value)| *value);
        own.or_else(|| request.value_of(key))
    }
}

impl RuleEntry {
    /// Returns the fingerprint that the counters of all limits of the rule share, given that of the only
    /// entry's value.
    #[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
    #[inline(always)]
    pub(crate) fn key_of(&self, value: Key) -> Key {
        self.key.of_values(if self.varies { value } else { Key::NONE })
    }

    /// Returns whether the rule is enforced for the key of these entries. The result is the same on every
    /// node.
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
