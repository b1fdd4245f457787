//! Rules compiled for lookup.
//!
//! A domain is a tree of nodes. Each node has a branch per entry key, and a branch finds the next node by the
//! value of the entry: the exact value in a hash table, then the patterns in file order, then the node for
//! any value. The hash of a value is computed once, and used both for the lookup and for the key of the
//! counter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use hashbrown::HashTable;
use tidegate_core::{Key, KeySeed, Limit};
use tidegate_stores::Force;

use super::forward_auth::ForwardAuth;
use super::limit_spec::{Defaults, LimitSpec};
use super::model::{OnStoreError, TierLimit};
use super::patterns::Patterns;
use super::text::same;
use crate::counts::RuleCounts;
use crate::decision::Item;
use crate::limit_terms::LimitTerms;
use crate::tenants::table::Tenants;

/// The compiled rules of all domains, and the overrides of tenants. It is cheap to clone, because every
/// change of a tenant creates a new one.
#[derive(Clone)]
pub(crate) struct RuleSet {
    pub(crate) seed: KeySeed,
    pub(crate) domains: Arc<[DomainTree]>,
    /// Indexes into `domains` by name.
    pub(crate) by_name: Arc<HashTable<u32>>,
    pub(crate) tenants: Tenants,
    /// Rules up to this kind take the shortest path. While no tenant has a tier or override, [`Complexity::Tenant`]
    /// is as short as [`Complexity::Plain`], because the tenant makes no difference to rules without tiers.
    pub(crate) fast_path: Complexity,
    /// The defaults that the rules and overrides were compiled with.
    pub(crate) defaults: Defaults,
    /// The number of reloads. It identifies the rules that a decision was made under.
    pub(crate) generation: u64,
    pub(crate) count_denied: bool,
    /// The number of values with metrics of their own, over all rules.
    pub(crate) values_counted: Arc<AtomicUsize>,
}

/// The compiled rules of one domain.
pub(crate) struct DomainTree {
    pub(crate) name: Box<str>,
    pub(crate) tenant_key: Option<Box<str>>,
    pub(crate) hierarchical: bool,
    /// Tenants by name, each with the index of its tier.
    pub(crate) tenants: HashTable<(Box<str>, u16)>,
    /// The names of tiers, sorted.
    pub(crate) tiers: Vec<Box<str>>,
    /// Whether any rule replaces limits of others. If not, decisions skip the check.
    pub(crate) has_replaces: bool,
    /// The most distinct inline limits of requests; `None` if requests may not have inline limits.
    pub(crate) inline_limits: Option<u64>,
    /// The descriptors of forward-auth requests, which a proxy describes by headers.
    pub(crate) forward_auth: Option<Arc<ForwardAuth>>,
    /// The nodes of the tree. Node 0 is the root; node `n` belongs to rule `n - 1`.
    pub(crate) nodes: Vec<Node>,
    pub(crate) rules: Vec<RuleEntry>,
}

/// A node of a domain's tree.
#[derive(Default)]
pub(crate) struct Node {
    /// One branch per key, in file order.
    pub(super) branches: Vec<Branch>,
    /// Indexes into `branches` by key, if there are too many for a linear search.
    pub(super) by_key: Option<Box<HashTable<u32>>>,
}

/// The child nodes for entries with one key.
pub(crate) struct Branch {
    pub(crate) key: Box<str>,
    pub(crate) exact: HashTable<(Box<str>, u32)>,
    pub(crate) patterns: Patterns,
    pub(crate) any: Option<u32>,
}

/// A compiled rule.
#[expect(clippy::struct_excessive_bools, reason = "these are the flags of a rule file")]
pub(crate) struct RuleEntry {
    pub(crate) id: Box<str>,
    /// The path of the rule in the notation of envoyproxy/ratelimit: `key_value.key`.
    pub(crate) path: Box<str>,
    pub(crate) counts: Arc<RuleCounts>,
    /// The index of the rule in its domain.
    pub(crate) number: u32,
    /// The index of the rule among the rules of all domains.
    pub(crate) global_index: u32,
    /// Equal to `global_index` if the overrides of a tenant can be applied on the short path; else `u32::MAX`, which
    /// is not the index of any rule.
    pub(crate) fast_path_index: u32,
    /// What it takes to decide a request whose only entry leads to this rule.
    pub(crate) complexity: Complexity,
    /// Whether the limits may differ between tenants.
    pub(crate) personal: bool,
    /// How the rule's own limits apply to keys for which it is enforced.
    pub(crate) terms: LimitTerms,
    /// The fingerprint of the rule's path without values of requests. All counters of the rule share it.
    pub(crate) key: Key,
    /// The fingerprint of the path with a fixed seed, so that every node selects the same keys for a staged
    /// roll-out.
    pub(crate) stable_key: Key,
    /// Whether each value of the last entry on the path has counters of its own.
    pub(crate) varies: bool,
    /// For each entry on the path, whether each of its values has counters of its own.
    pub(crate) path_varies: Box<[bool]>,
    pub(crate) limits: LimitSet,
    /// The limits of tiers that have others, sorted by the index of the tier.
    pub(crate) tiers: Vec<(u16, LimitSet)>,
    /// The limit on slot holders. Permits share it, because rules may change while a slot is held.
    pub(crate) concurrency: Option<Arc<LimitEntry>>,
    pub(crate) unlimited: bool,
    /// The names of limits that do not apply to a request to which this rule applies.
    pub(crate) replaces: Box<[Box<str>]>,
    pub(crate) enforce_percent: u8,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) value_to_metric: bool,
    pub(crate) hide_keys: bool,
    /// Percentages of a limit, in ascending order.
    pub(crate) warn_at: Box<[u8]>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    pub(crate) written: WrittenLimits,
}

/// What it takes to decide a request whose only entry leads to a rule, from the shortest path to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Complexity {
    /// The limits are the same for all requests, are enforced for all keys, and are never replaced.
    Plain,
    /// As `Plain`, but the entry names the tenant, who may have overrides.
    Tenant,
    /// As `Tenant`, and tiers have other limits.
    Tier,
    /// The general path: a staged roll-out, or another rule of the domain replaces limits.
    General,
}

/// The limits of a rule as they were written, on which overrides are based. They are kept while the rule is
/// switched off, so that overrides made in the meantime apply when it is switched on again.
#[derive(Clone, Default)]
pub(crate) struct WrittenLimits {
    /// The limits, in the order of [`RuleEntry::limits`].
    pub(crate) limits: Vec<LimitSpec>,
    /// The changed limits of tiers, by the name of the tier and the name of the limit.
    pub(crate) tiers: BTreeMap<String, BTreeMap<String, TierLimit>>,
}

/// The limits of a rule, or of a rule for one tier.
pub(crate) type LimitSet = Box<[LimitEntry]>;

/// A compiled limit.
#[derive(Clone)]
pub(crate) struct LimitEntry {
    pub(crate) name: Box<str>,
    /// The name in the rules, if the limit has one. `replaces` refers to it.
    pub(crate) given_name: Option<Box<str>>,
    pub(crate) limit: Limit,
    /// Distinguishes the counters of this limit from those of the rule's other limits.
    pub(crate) salt: u64,
    /// The index among the rule's own limits. It is the same in every tier.
    pub(crate) number: u16,
}

/// How the value of an entry matched a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Exact,
    Pattern,
    Any,
}

impl RuleSet {
    /// Sets the tiers and overrides of tenants.
    pub(crate) fn set_tenants(&mut self, tenants: Tenants) {
        self.fast_path = if tenants.is_empty() { Complexity::Tenant } else { Complexity::Plain };
        self.tenants = tenants;
    }

    /// Returns the domains for changes. They are empty if the rules are shared already.
    pub(crate) fn domains_mut(&mut self) -> &mut [DomainTree] {
        Arc::get_mut(&mut self.domains).unwrap_or_default()
    }

    /// Returns the domain with this name, and its index.
    #[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
    #[inline(always)]
    pub(crate) fn domain(&self, name: &str) -> Option<(u32, &DomainTree)> {
        if let [only] = &*self.domains {
            return same(&only.name, name).then_some((0, only));
        }
        self.domain_of_several(name)
    }

    #[inline(never)]
    fn domain_of_several(&self, name: &str) -> Option<(u32, &DomainTree)> {
        let hash = self.seed.text(name).mark;
        let same = |index: &u32| *self.domains[*index as usize].name == *name;
        self.by_name.find(hash, same).map(|index| (*index, &self.domains[*index as usize]))
    }
}

impl DomainTree {
    /// Returns the index of the tier with this name, if the rules define it.
    pub(crate) fn tier_named(&self, name: &str) -> Option<u16> {
        self.tiers.binary_search_by(|known| (**known).cmp(name)).ok().map(|index| index as u16)
    }

    /// Returns the tier that the rules assign to a tenant.
    pub(crate) fn tier_of(&self, tenant: &str, seed: KeySeed) -> Option<u16> {
        let hash = seed.text(tenant).mark;
        self.tenants.find(hash, |(name, _)| **name == *tenant).map(|(_, tier)| *tier)
    }
}

impl Node {
    pub(crate) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Returns the branch for entries with this key.
    #[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
    #[inline(always)]
    pub(crate) fn branch(&self, key: &str, seed: KeySeed) -> Option<&Branch> {
        match &self.by_key {
            None => self.branches.iter().find(|branch| same(&branch.key, key)),
            Some(table) => self.position(table, key, seed).map(|index| &self.branches[index]),
        }
    }

    /// Returns the index of the branch for entries with this key.
    pub(super) fn index_of(&self, key: &str, seed: KeySeed) -> Option<usize> {
        match &self.by_key {
            None => self.branches.iter().position(|branch| same(&branch.key, key)),
            Some(table) => self.position(table, key, seed),
        }
    }

    #[inline(never)]
    fn position(&self, table: &HashTable<u32>, key: &str, seed: KeySeed) -> Option<usize> {
        let found = table.find(seed.text(key).mark, |index| *self.branches[*index as usize].key == *key);
        found.map(|index| *index as usize)
    }
}

impl Branch {
    /// Returns the node for a value: the exact one, else the first pattern in file order that matches, else
    /// the one for any value.
    #[expect(clippy::inline_always, reason = "a few instructions on the path of every decision")]
    #[inline(always)]
    pub(crate) fn step(&self, value: &str, hash: u64) -> Option<(u32, Step)> {
        if !self.exact.is_empty()
            && let Some(node) = self.exactly(value, hash)
        {
            return Some((node, Step::Exact));
        }
        if !self.patterns.is_empty()
            && let Some(node) = self.patterns.find(value)
        {
            return Some((node, Step::Pattern));
        }
        self.any.map(|node| (node, Step::Any))
    }

    // Not inlined, so that decisions without such rules do not pay for it.
    #[inline(never)]
    fn exactly(&self, value: &str, hash: u64) -> Option<u32> {
        self.exact.find(hash, |(known, _)| **known == *value).map(|(_, node)| *node)
    }
}

impl RuleEntry {
    /// Creates a rule without limits that is in no domain.
    pub(crate) fn bare(id: &str, key: Key) -> Self {
        Self {
            id: id.into(),
            path: id.into(),
            counts: Arc::default(),
            number: Item::INLINE,
            global_index: Item::INLINE,
            fast_path_index: Item::INLINE,
            complexity: Complexity::General,
            personal: false,
            terms: LimitTerms::of_rule(Force::Enforced),
            key,
            stable_key: key,
            varies: true,
            path_varies: Box::default(),
            limits: Box::default(),
            tiers: Vec::new(),
            concurrency: None,
            unlimited: false,
            replaces: Box::default(),
            enforce_percent: 100,
            shadow_mode: false,
            quota_mode: false,
            detailed_metric: false,
            value_to_metric: false,
            hide_keys: false,
            warn_at: Box::default(),
            on_store_error: OnStoreError::default(),
            metadata: serde_json::Map::new(),
            written: WrittenLimits::default(),
        }
    }

    /// Returns the limits of the rule for a tier.
    #[inline]
    pub(crate) fn limits_for(&self, tier: Option<u16>) -> &LimitSet {
        let Some(tier) = tier else { return &self.limits };
        match self.tiers.binary_search_by_key(&tier, |(index, _)| *index) {
            Ok(found) => &self.tiers[found].1,
            Err(_) => &self.limits,
        }
    }
}
