//! The table of tenants that decisions look up.
//!
//! Tenants are identified by fingerprint; their names, and overrides as they were written, are not kept. A
//! table is immutable: a change creates a new one, which shares everything with the old one except the shard
//! of the tenant and the path to it. So decisions keep the table that they were made with, and never wait for
//! a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_core::Key;

use super::own::{Draft, OverrideIndex, OverrideLimit, OverrideLookup, TenantOverrides};
use super::shard::Shard;
use crate::rules::tree::DomainTree;

/// The number of shards per branch. Branches keep the amount small that a change of a large table copies.
const BRANCH: usize = 64;
/// The average number of tenants per shard in a new table.
const PER_SHARD: usize = 24;
/// The average number of tenants per shard above which the number of shards is raised.
const MAX_PER_SHARD: usize = 96;

/// All tenants that have a tier or overrides. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tenants {
    /// The branches: a power of two, or none if there are no tenants.
    branches: Arc<[Arc<Branch>]>,
    /// How far to shift the `home` of a tenant's fingerprint to get the number of its shard.
    shift: u32,
    len: usize,
    tiers: Arc<TierNames>,
}

type Branch = [Arc<Shard>; BRANCH];

/// The names of tiers, and their indexes in each domain.
#[derive(Clone, Default)]
struct TierNames {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    /// For each name, the index of the tier in each domain; `None` if the domain does not have it.
    in_domains: Vec<Box<[Option<u16>]>>,
}

impl Tenants {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the tier and the overrides of a tenant, by the fingerprint of its name.
    #[inline]
    pub(crate) fn find(&self, tenant: Key) -> Option<TenantOverrides<'_>> {
        if self.is_empty() {
            return None;
        }
        let number = self.shard_of(tenant);
        self.shard(number)?.find(number as u32, tenant)
    }

    /// Returns the tenant's override for the only limit of a rule.
    // Not inlined, so that decisions without tenants do not pay for it.
    #[inline(never)]
    pub(crate) fn only_override(&self, tenant: Key, rule: u32) -> OverrideLookup<'_> {
        let shard = self.shard(self.shard_of(tenant));
        shard.map_or(OverrideLookup::NONE, |shard| shard.only_override(tenant, rule))
    }

    /// Returns the position of an override that [`Tenants::only_override`] has returned.
    #[inline]
    pub(crate) fn index_of(&self, tenant: Key, found: OverrideLookup<'_>) -> OverrideIndex {
        OverrideIndex { shard: self.shard_of(tenant) as u32, index: found.index }
    }

    /// Returns the override at a position.
    pub(crate) fn at(&self, index: OverrideIndex) -> Option<&OverrideLimit> {
        self.shard(index.shard as usize)?.own.get(index.index as usize)
    }

    #[inline]
    fn shard_of(&self, tenant: Key) -> usize {
        (tenant.home >> self.shift) as usize
    }

    #[inline]
    fn shard(&self, number: usize) -> Option<&Shard> {
        Some(&self.branches.get(number / BRANCH)?[number % BRANCH])
    }

    /// Returns the name of a tenant's tier.
    pub(crate) fn tier_name(&self, own: &TenantOverrides<'_>) -> Option<&str> {
        self.tiers.names.get(own.tier as usize).map(|name| &**name)
    }

    /// Returns the index of a tenant's tier in a domain; the result of `otherwise` if the tenant was given
    /// none. Returns `None` for a tier that the rules of the domain do not define.
    #[inline]
    pub(crate) fn tier(
        &self,
        own: Option<&TenantOverrides<'_>>,
        domain: u32,
        otherwise: impl FnOnce() -> Option<u16>,
    ) -> Option<u16> {
        match own.and_then(|own| self.tiers.in_domains.get(own.tier as usize)) {
            Some(domains) => domains[domain as usize],
            None => otherwise(),
        }
    }

    /// Returns the number of a tier's name, and assigns one if there is none yet.
    pub(crate) fn number_tier(&mut self, name: &str, domains: &[DomainTree]) -> u32 {
        if let Some(number) = self.tiers.numbers.get(name) {
            return *number;
        }
        let tiers = Arc::make_mut(&mut self.tiers);
        let number = tiers.names.len() as u32;
        tiers.numbers.insert(name.into(), number);
        tiers.names.push(name.into());
        tiers.in_domains.push(domains.iter().map(|domain| domain.tier_named(name)).collect());
        number
    }

    /// Returns a table with exactly these tenants. If a tenant occurs twice, the last one counts.
    pub(crate) fn filled(mut self, mut drafts: Vec<(Key, Draft)>) -> Self {
        drafts.sort_by_key(|(tenant, _)| *tenant);
        // Keeps the last of equal ones.
        drafts.reverse();
        drafts.dedup_by_key(|(tenant, _)| *tenant);
        drafts.reverse();
        self.len = drafts.len();
        if drafts.is_empty() {
            self.branches = Arc::default();
            return self;
        }
        let branches = (drafts.len() / (PER_SHARD * BRANCH)).next_power_of_two();
        self.shift = u64::BITS - (branches * BRANCH).ilog2();
        let shift = self.shift;
        let mut drafts = drafts.into_iter().peekable();
        let mut shard = |number: usize| {
            let mut of_shard = Vec::new();
            while let Some(next) = drafts.next_if(|(tenant, _)| (tenant.home >> shift) as usize == number) {
                of_shard.push(next);
            }
            Arc::new(Shard::new(&of_shard))
        };
        let branch = |branch| Arc::new(std::array::from_fn(|index| shard(branch * BRANCH + index)));
        self.branches = (0..branches).map(branch).collect();
        self
    }

    /// Returns the table with changes applied. A draft of `None` removes the tenant.
    pub(crate) fn changed(mut self, changes: Vec<(Key, Option<Draft>)>) -> Self {
        if self.is_empty() {
            let mut last: BTreeMap<Key, Option<Draft>> = BTreeMap::new();
            last.extend(changes);
            let drafts = last.into_iter().filter_map(|(tenant, draft)| Some((tenant, draft?)));
            return self.filled(drafts.collect());
        }
        let mut by_shard: BTreeMap<usize, Vec<(Key, Option<Draft>)>> = BTreeMap::new();
        for change in changes {
            by_shard.entry(self.shard_of(change.0)).or_default().push(change);
        }
        let mut branches: Vec<Arc<Branch>> = self.branches.to_vec();
        for (number, changes) in by_shard {
            let Some(branch) = branches.get_mut(number / BRANCH) else { continue };
            let shard = &mut Arc::make_mut(branch)[number % BRANCH];
            let new = shard.changed(changes);
            self.len = self.len + new.len() - shard.len();
            *shard = Arc::new(new);
        }
        self.branches = branches.into();
        if self.len > self.branches.len() * BRANCH * MAX_PER_SHARD { self.spread() } else { self }
    }

    /// Returns the table with more shards.
    fn spread(self) -> Self {
        let shards = self.branches.iter().flat_map(|branch| branch.iter());
        let drafts = shards.flat_map(|shard| shard.drafts()).collect();
        self.filled(drafts)
    }
}
