//! What tenants have instead of the rules' limits, as decisions look it up.
//!
//! Tenants go by fingerprint; names and overrides as written are not kept. The table never changes: a
//! change makes another, which shares with the one before all but the shard of the tenant and the way
//! there. So decisions hold on to the one they were made under, and none waits for a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_core::{Key, Limit};

use crate::rules::tree::DomainTree;

/// Shards lie together in branches of so many, so that a change copies little of a large table.
const BRANCH: usize = 64;
/// How many tenants a shard is made for, and how many on average make more shards of it.
const USUAL: usize = 24;
const CROWDED: usize = 96;
/// The end of a search.
const FREE: u32 = u32::MAX;

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

#[derive(Default)]
struct Shard {
    /// Indices of `records` by `mark`, a power of two of them and at least twice as many.
    slots: Box<[u32]>,
    records: Box<[Record]>,
    /// Those of all tenants, each tenant's together.
    own: Box<[OwnLimit]>,
}

/// A tenant.
#[derive(Clone, Copy)]
struct Record {
    tenant: Key,
    /// Number of its tier's name.
    tier: u32,
    first: u32,
    count: u32,
}

/// A limit that one tenant has in place of one in the rules.
#[derive(Clone, PartialEq)]
pub(crate) struct OwnLimit {
    /// Whose limit it stands for: the rule's place among those of all domains.
    pub(crate) rule: u32,
    /// Which entries of the descriptor have to have a certain value: one bit each, the first lowest.
    pub(crate) given: u32,
    /// The fingerprint of those values.
    pub(crate) values: u64,
    pub(crate) salt: u64,
    /// Index among the rule's own limits.
    pub(crate) number: u16,
    /// `None` for no limit at all.
    pub(crate) limit: Option<Limit>,
}

/// Where in the table a tenant's limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnPlace {
    shard: u32,
    index: u32,
}

impl OwnPlace {
    /// Of limits that are in the rules.
    pub(crate) const NONE: Self = Self { shard: u32::MAX, index: u32::MAX };

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.shard == u32::MAX
    }
}

/// What one tenant has.
#[derive(Clone, Copy)]
pub(crate) struct Own<'t> {
    tier: u32,
    pub(crate) limits: &'t [OwnLimit],
    /// The place of the first.
    first: OwnPlace,
}

/// A tenant on its way into the table.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) tier: Option<u32>,
    pub(crate) own: Vec<OwnLimit>,
}

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
        let shard = self.shard(number)?;
        let record = shard.find(tenant)?;
        let limits = shard.own.get(record.first as usize..(record.first + record.count) as usize)?;
        let first = OwnPlace { shard: number as u32, index: record.first };
        Some(Own { tier: record.tier, limits, first })
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
            self.len = self.len + new.records.len() - shard.records.len();
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

impl TierNames {
    const NONE: u32 = u32::MAX;
}

impl Shard {
    /// Of tenants that are not the same.
    fn new(drafts: &[(Key, Draft)]) -> Self {
        if drafts.is_empty() {
            return Self::default();
        }
        let mut own = Vec::with_capacity(drafts.iter().map(|(_, draft)| draft.own.len()).sum());
        let mut records = Vec::with_capacity(drafts.len());
        for (tenant, draft) in drafts {
            let (first, count) = (own.len() as u32, draft.own.len() as u32);
            own.extend_from_slice(&draft.own);
            records.push(Record {
                tenant: *tenant,
                tier: draft.tier.unwrap_or(TierNames::NONE),
                first,
                count,
            });
        }
        let mut slots = vec![FREE; (2 * records.len()).next_power_of_two()];
        for (number, record) in records.iter().enumerate() {
            let mut at = record.tenant.mark as usize % slots.len();
            while slots[at] != FREE {
                at = (at + 1) % slots.len();
            }
            slots[at] = number as u32;
        }
        Self { slots: slots.into(), records: records.into(), own: own.into() }
    }

    #[inline]
    fn find(&self, tenant: Key) -> Option<&Record> {
        let last = self.slots.len().wrapping_sub(1);
        let mut at = tenant.mark as usize & last;
        // There is a free slot, so it ends; an empty shard has no slots.
        loop {
            let record = self.records.get(*self.slots.get(at)? as usize)?;
            if record.tenant == tenant {
                return Some(record);
            }
            at = (at + 1) & last;
        }
    }

    fn drafts(&self) -> impl Iterator<Item = (Key, Draft)> {
        self.records.iter().map(|record| {
            let own = &self.own[record.first as usize..(record.first + record.count) as usize];
            let tier = Some(record.tier).filter(|tier| *tier != TierNames::NONE);
            (record.tenant, Draft { tier, own: own.to_vec() })
        })
    }

    fn changed(&self, changes: Vec<(Key, Option<Draft>)>) -> Self {
        let mut drafts: Vec<(Key, Draft)> = self.drafts().collect();
        for (tenant, draft) in changes {
            let known = drafts.iter().position(|(known, _)| *known == tenant);
            match (known, draft) {
                (Some(known), Some(draft)) => drafts[known].1 = draft,
                (None, Some(draft)) => drafts.push((tenant, draft)),
                (Some(known), None) => drop(drafts.remove(known)),
                (None, None) => {}
            }
        }
        Self::new(&drafts)
    }
}

impl<'t> Own<'t> {
    /// Those for a rule, in the order of its limits; of each limit the most special first.
    #[inline]
    pub(crate) fn of_rule(self, rule: u32) -> Option<Self> {
        // Most tenants have one or none.
        match self.limits {
            [] => None,
            [only] => (only.rule == rule).then_some(self),
            _ => self.of_rule_among(rule),
        }
    }

    fn of_rule_among(mut self, rule: u32) -> Option<Self> {
        let before = self.limits.partition_point(|own| own.rule < rule);
        self.limits = &self.limits[before..];
        self.first.index += before as u32;
        let count = self.limits.partition_point(|own| own.rule == rule);
        self.limits = &self.limits[..count];
        (count > 0).then_some(self)
    }

    /// The place of one of these.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> OwnPlace {
        OwnPlace { index: self.first.index + index as u32, ..self.first }
    }

    /// What stands in place of the rule's limit of that number: the most special that fits the entries,
    /// whose values `values` makes a fingerprint of.
    #[inline]
    pub(crate) fn limit(&self, number: u16, values: impl Fn(u32) -> u64) -> Option<(OwnPlace, &'t OwnLimit)> {
        match self.limits {
            [only] => {
                let fits = only.number == number && (only.given == 0 || values(only.given) == only.values);
                fits.then_some((self.first, only))
            }
            _ => self.limit_among(number, values),
        }
    }

    fn limit_among(&self, number: u16, values: impl Fn(u32) -> u64) -> Option<(OwnPlace, &'t OwnLimit)> {
        let mut at = self.limits.partition_point(|own| own.number < number);
        while let Some(first) = self.limits.get(at).filter(|own| own.number == number) {
            let rest = &self.limits[at..];
            let alike = rest.partition_point(|own| own.number == number && own.given == first.given);
            let wanted = if first.given == 0 { first.values } else { values(first.given) };
            if let Ok(found) = rest[..alike].binary_search_by_key(&wanted, |own| own.values) {
                return Some((self.place(at + found), &rest[found]));
            }
            at += alike;
        }
        None
    }

    /// The same as it would be put into the table.
    pub(crate) fn draft(&self) -> Draft {
        let tier = Some(self.tier).filter(|tier| *tier != TierNames::NONE);
        Draft { tier, own: self.limits.to_vec() }
    }
}

impl OwnLimit {
    /// In the order that [`Own::limit`] looks: those with more values given come first, and of as many
    /// those that come earlier in the descriptor.
    pub(crate) fn order(&self) -> impl Ord + use<> {
        let special = std::cmp::Reverse((self.given.count_ones(), self.given.reverse_bits()));
        (self.rule, self.number, special, self.values)
    }
}
