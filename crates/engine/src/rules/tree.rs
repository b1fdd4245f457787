//! Rules compiled for lookup: what a request is matched against.
//!
//! A domain is a tree of nodes. Each node has a branch per entry key, and a branch finds the next
//! node by the entry's value: the exact value in a hash table, then the patterns in file order, then
//! the node for any value. The same hash of a value finds the node and makes the counter's key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use hashbrown::HashTable;
use tidegate_core::{Key, KeySeed, Limit};
use tidegate_stores::Force;

use super::forward_auth::ForwardAuth;
use super::limit_spec::{Defaults, LimitSpec};
use super::model::{OnStoreError, TierLimit};
use super::pattern::Pattern;
use super::text::same;
use crate::counts::RuleCounts;
use crate::decision::Item;
use crate::standing::Standing;
use crate::tenants::table::Tenants;

/// Every domain's rules, ready to be matched, and what tenants have instead of their limits. Cheap to
/// clone, because a change to one tenant makes another of it.
#[derive(Clone)]
pub(crate) struct RuleSet {
    pub(crate) seed: KeySeed,
    pub(crate) domains: Arc<[DomainTree]>,
    /// Index into `domains` by name.
    pub(crate) by_name: Arc<HashTable<u32>>,
    pub(crate) tenants: Tenants,
    /// The longest way that is as short as the shortest: as long as no tenant has anything of its own, who
    /// is named makes no difference to rules without tiers.
    pub(crate) short: Way,
    /// What the rules were compiled under; overrides are, too.
    pub(crate) defaults: Defaults,
    /// Counts reloads: a decision tells by it which rules it was made under.
    pub(crate) generation: u64,
    pub(crate) count_denied: bool,
    /// How many values of keys are counted apart, in all rules.
    pub(crate) values_counted: Arc<AtomicUsize>,
}

/// One domain's rules.
pub(crate) struct DomainTree {
    pub(crate) name: Box<str>,
    pub(crate) tenant_key: Option<Box<str>>,
    pub(crate) hierarchical: bool,
    /// Tenants by name, each with the index of its tier.
    pub(crate) tenants: HashTable<(Box<str>, u16)>,
    pub(crate) tiers: Vec<Box<str>>,
    /// Whether any rule replaces limits of others; if not, nobody looks.
    pub(crate) has_replaces: bool,
    /// How many distinct limits requests may bring along; none where absent.
    pub(crate) inline_limits: Option<u64>,
    /// What is asked about requests that a proxy describes by headers.
    pub(crate) forward_auth: Option<Arc<ForwardAuth>>,
    /// The first is the root; node `n` after it belongs to rule `n - 1`.
    pub(crate) nodes: Vec<Node>,
    pub(crate) rules: Vec<RuleEntry>,
}

#[derive(Default)]
pub(crate) struct Node {
    /// One per key, in file order.
    pub(super) branches: Vec<Branch>,
    /// Index into `branches` by key, where there are too many to look through.
    pub(super) by_key: Option<Box<HashTable<u32>>>,
}

/// Where an entry with a certain key leads.
pub(crate) struct Branch {
    pub(crate) key: Box<str>,
    pub(crate) exact: HashTable<(Box<str>, u32)>,
    pub(crate) patterns: Vec<(Pattern, u32)>,
    pub(crate) any: Option<u32>,
}

/// A rule as decisions use it.
#[expect(clippy::struct_excessive_bools, reason = "these are the flags of a rule file")]
pub(crate) struct RuleEntry {
    pub(crate) id: Box<str>,
    /// The way here as envoyproxy/ratelimit writes it: `key_value.key`.
    pub(crate) path: Box<str>,
    pub(crate) counts: Arc<RuleCounts>,
    /// Index of the rule in its domain.
    pub(crate) number: u32,
    /// The same among the rules of all domains.
    pub(crate) place: u32,
    /// The same where what a tenant has instead is found a short way; of no rule if the way is long.
    pub(crate) place_if_short: u32,
    /// What a request with one entry that leads here needs to be decided.
    pub(crate) way: Way,
    /// Whether its limits may be others for some tenants.
    pub(crate) personal: bool,
    /// Of its own limits, for keys that are enforced.
    pub(crate) standing: Standing,
    /// The path without values of the request: what all counters of the rule have in common.
    pub(crate) key: Key,
    /// The same from a fixed seed, so that every node picks the same keys for a staged roll-out.
    pub(crate) stable_key: Key,
    /// Whether the value of the entry that leads here tells one counter from another.
    pub(crate) varies: bool,
    /// The same for each entry on the way here.
    pub(crate) path_varies: Box<[bool]>,
    pub(crate) limits: LimitSet,
    /// What tiers have instead, each with the tier's index, in the order of those.
    pub(crate) tiers: Vec<(u16, LimitSet)>,
    pub(crate) concurrency: Option<LimitEntry>,
    pub(crate) unlimited: bool,
    /// Names of limits that do not apply to a request this rule applies to.
    pub(crate) replaces: Box<[Box<str>]>,
    pub(crate) enforce_percent: u8,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) value_to_metric: bool,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    pub(crate) written: WrittenLimits,
}

/// How short the way of a request is whose only entry leads to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// The rule's limits are the same for everybody who comes this way, enforced for all, and never
    /// replaced.
    Plain,
    /// The same, but that the entry names the tenant, who may have limits of its own.
    Tenant,
    /// The same, and tiers have other limits as well.
    Tier,
    /// A staged roll-out, or another rule of the domain stands in for some limit.
    Long,
}

/// A rule's limits as somebody wrote them: what overrides are changes of. They stay while the rule is
/// switched off, so that overrides of that time are there when it is on again.
#[derive(Clone, Default)]
pub(crate) struct WrittenLimits {
    /// In the order of the rule's `limits`.
    pub(crate) limits: Vec<LimitSpec>,
    /// Tier name, limit name, what the tier has instead.
    pub(crate) tiers: BTreeMap<String, BTreeMap<String, TierLimit>>,
}

/// The limits of a rule, or of a rule for one tier.
pub(crate) type LimitSet = Box<[LimitEntry]>;

/// A limit as decisions use it.
#[derive(Clone)]
pub(crate) struct LimitEntry {
    pub(crate) name: Box<str>,
    /// The name as written; `replaces` refers to it.
    pub(crate) given_name: Option<Box<str>>,
    pub(crate) limit: Limit,
    /// Tells its counters from those of the rule's other limits.
    pub(crate) salt: u64,
    /// Its index among the rule's own limits, in every tier.
    pub(crate) number: u16,
}

/// How a node was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Exact,
    Pattern,
    Any,
}

impl RuleSet {
    /// Sets what tenants have.
    pub(crate) fn set_tenants(&mut self, tenants: Tenants) {
        self.short = if tenants.is_empty() { Way::Tenant } else { Way::Plain };
        self.tenants = tenants;
    }

    /// The domains, of rules that nobody has yet.
    pub(crate) fn domains_mut(&mut self) -> &mut [DomainTree] {
        Arc::get_mut(&mut self.domains).unwrap_or_default()
    }

    #[expect(clippy::inline_always, reason = "a few instructions on the way of every decision")]
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
    /// The index of the tier of that name, if the rules know it.
    pub(crate) fn tier_named(&self, name: &str) -> Option<u16> {
        self.tiers.binary_search_by(|known| (**known).cmp(name)).ok().map(|index| index as u16)
    }

    /// The tier that the rules put a tenant on.
    pub(crate) fn tier_of(&self, tenant: &str, seed: KeySeed) -> Option<u16> {
        let hash = seed.text(tenant).mark;
        self.tenants.find(hash, |(name, _)| **name == *tenant).map(|(_, tier)| *tier)
    }
}

impl Node {
    pub(crate) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    #[expect(clippy::inline_always, reason = "a few instructions on the way of every decision")]
    #[inline(always)]
    pub(crate) fn branch(&self, key: &str, seed: KeySeed) -> Option<&Branch> {
        // Most nodes have one.
        let first = self.branches.first()?;
        if same(&first.key, key) {
            return Some(first);
        }
        self.position(key, seed).map(|index| &self.branches[index])
    }

    #[inline(never)]
    pub(super) fn position(&self, key: &str, seed: KeySeed) -> Option<usize> {
        let Some(table) = &self.by_key else {
            return self.branches.iter().position(|branch| same(&branch.key, key));
        };
        let found = table.find(seed.text(key).mark, |index| *self.branches[*index as usize].key == *key);
        found.map(|index| *index as usize)
    }
}

impl Branch {
    /// The node a value leads to: exact, then patterns in file order, then any value.
    #[expect(clippy::inline_always, reason = "a few instructions on the way of every decision")]
    #[inline(always)]
    pub(crate) fn step(&self, value: &str, hash: u64) -> Option<(u32, Step)> {
        if !self.exact.is_empty()
            && let Some(node) = self.exactly(value, hash)
        {
            return Some((node, Step::Exact));
        }
        if !self.patterns.is_empty()
            && let Some(node) = self.by_pattern(value)
        {
            return Some((node, Step::Pattern));
        }
        self.any.map(|node| (node, Step::Any))
    }

    // Not inlined: whoever has no such rules should not make room for looking.
    #[inline(never)]
    fn exactly(&self, value: &str, hash: u64) -> Option<u32> {
        self.exact.find(hash, |(known, _)| **known == *value).map(|(_, node)| *node)
    }

    #[inline(never)]
    fn by_pattern(&self, value: &str) -> Option<u32> {
        self.patterns.iter().find(|(pattern, _)| pattern.matches(value)).map(|(_, node)| *node)
    }
}

impl RuleEntry {
    /// A rule without limits.
    pub(crate) fn bare(id: &str, key: Key) -> Self {
        Self {
            id: id.into(),
            path: id.into(),
            counts: Arc::default(),
            number: Item::BROUGHT,
            place: Item::BROUGHT,
            place_if_short: Item::BROUGHT,
            way: Way::Long,
            personal: false,
            standing: Standing::of_rule(Force::Enforced),
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
            on_store_error: OnStoreError::default(),
            metadata: serde_json::Map::new(),
            written: WrittenLimits::default(),
        }
    }

    /// The rule's limits for a tier.
    #[inline]
    pub(crate) fn limits_for(&self, tier: Option<u16>) -> &LimitSet {
        let Some(tier) = tier else { return &self.limits };
        match self.tiers.binary_search_by_key(&tier, |(index, _)| *index) {
            Ok(found) => &self.tiers[found].1,
            Err(_) => &self.limits,
        }
    }
}
