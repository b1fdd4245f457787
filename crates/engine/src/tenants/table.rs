//! What tenants have instead of the rules' limits, as decisions look it up.
//!
//! Tenants go by fingerprint; names and overrides as written are not kept. The table never changes: a
//! change makes another, which shares with the one before all but the shard of the tenant and the way
//! there. So decisions hold on to the one they were made under, and none waits for a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_core::Key;

use super::own::{Draft, Instead, Own, OwnLimit, OwnPlace};
use super::shard::Shard;
use crate::rules::tree::DomainTree;

/// Shards lie together in branches of so many, so that a change copies little of a large table.
const BRANCH: usize = 64;
/// How many tenants a shard is made for, and how many on average make more shards of it.
const USUAL: usize = 24;
const CROWDED: usize = 96;

/// Every tenant that has a tier or limits of its own. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tenants {
    /// A power of two of them, or none.
    branches: Arc<[Arc<Branch>]>,
    /// What of a tenant's `home` is not the number of its shard.
    shift: u32,
    len: usize,
    tiers: Arc<TierNames>,
}

type Branch = [Arc<Shard>; BRANCH];

/// Names of tiers, and which of each domain's they are.
#[derive(Clone, Default)]
struct TierNames {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    /// For each of them its index in each domain.
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

    /// What a tenant has, by the fingerprint of its name.
    #[inline]
    pub(crate) fn find(&self, tenant: Key) -> Option<Own<'_>> {
        if self.is_empty() {
            return None;
        }
        let number = self.shard_of(tenant);
        self.shard(number)?.find(number as u32, tenant)
    }

    /// What a tenant has in place of the only limit of a rule.
    // Apart, so that decisions without tenants are as they would be if there were none.
    #[inline(never)]
    pub(crate) fn instead(&self, tenant: Key, rule: u32) -> Instead<'_> {
        let shard = self.shard(self.shard_of(tenant));
        shard.map_or(Instead::NOTHING, |shard| shard.instead(tenant, rule))
    }

    /// The place of what was found in place of a limit.
    #[inline]
    pub(crate) fn place(&self, tenant: Key, found: Instead<'_>) -> OwnPlace {
        OwnPlace { shard: self.shard_of(tenant) as u32, index: found.index }
    }

    /// The limit at a place.
    pub(crate) fn at(&self, place: OwnPlace) -> Option<&OwnLimit> {
        self.shard(place.shard as usize)?.own.get(place.index as usize)
    }

    #[inline]
    fn shard_of(&self, tenant: Key) -> usize {
        (tenant.home >> self.shift) as usize
    }

    #[inline]
    fn shard(&self, number: usize) -> Option<&Shard> {
        Some(&self.branches.get(number / BRANCH)?[number % BRANCH])
    }

    /// The name of a tenant's tier.
    pub(crate) fn tier_name(&self, own: &Own<'_>) -> Option<&str> {
        self.tiers.names.get(own.tier as usize).map(|name| &**name)
    }

    /// Which of a domain's tiers a tenant is on; `otherwise` if it has none of its own. One that the
    /// domain's rules do not know is none of theirs.
    #[inline]
    pub(crate) fn tier(
        &self,
        own: Option<&Own<'_>>,
        domain: u32,
        otherwise: impl FnOnce() -> Option<u16>,
    ) -> Option<u16> {
        match own.and_then(|own| self.tiers.in_domains.get(own.tier as usize)) {
            Some(domains) => domains[domain as usize],
            None => otherwise(),
        }
    }

    /// The number of a tier's name.
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

    /// The table with these tenants alone; of two of the same name the last.
    pub(crate) fn filled(mut self, mut drafts: Vec<(Key, Draft)>) -> Self {
        drafts.sort_by_key(|(tenant, _)| *tenant);
        // Of those that are the same the last stays.
        drafts.reverse();
        drafts.dedup_by_key(|(tenant, _)| *tenant);
        drafts.reverse();
        self.len = drafts.len();
        if drafts.is_empty() {
            self.branches = Arc::default();
            return self;
        }
        let branches = (drafts.len() / (USUAL * BRANCH)).next_power_of_two();
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

    /// The table with these tenants changed; `None` for those that are to be gone.
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
        if self.len > self.branches.len() * BRANCH * CROWDED { self.spread() } else { self }
    }

    /// The same in more shards.
    fn spread(self) -> Self {
        let shards = self.branches.iter().flat_map(|branch| branch.iter());
        let drafts = shards.flat_map(|shard| shard.drafts()).collect();
        self.filled(drafts)
    }
}
