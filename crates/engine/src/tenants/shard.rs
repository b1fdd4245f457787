//! A hash table of a few dozen tenants.

use tidegate_core::Key;

use super::own::{
    Draft, MOST_IN_SHARD, NO_TIER, OverrideIndex, OverrideLimit, OverrideLookup, TenantOverrides,
};

/// An empty slot, which ends a search.
const FREE: u32 = u32::MAX;

/// The tenants whose fingerprints have the same highest bits.
#[derive(Default)]
pub(super) struct Shard {
    /// Indexes into `records`, hashed by `mark`. Their number is a power of two and at least twice that of
    /// the records.
    slots: Box<[u32]>,
    records: Box<[Record]>,
    /// The overrides of all tenants. Those of one tenant are consecutive.
    pub(super) own: Box<[OverrideLimit]>,
}

/// A tenant in a shard.
#[derive(Clone, Copy)]
struct Record {
    tenant: Key,
    /// The number of the tier's name.
    tier: u32,
    first: u32,
    count: u32,
    /// The index of the rule of the tenant's only override, if that applies whatever the values of a
    /// descriptor are. Otherwise one of the constants below, which are not the index of any rule.
    only: u32,
}

impl Record {
    /// The tenant has no overrides.
    const NO_LIMITS: u32 = u32::MAX - 1;
    /// The tenant has several overrides, or one for certain values.
    const SEVERAL_LIMITS: u32 = u32::MAX - 2;

    fn only(own: &[OverrideLimit]) -> u32 {
        match own {
            [] => Self::NO_LIMITS,
            [only] if only.given == 0 => only.rule,
            _ => Self::SEVERAL_LIMITS,
        }
    }
}

impl Shard {
    /// Creates a shard. No tenant may occur twice.
    pub(super) fn new(drafts: &[(Key, Draft)]) -> Self {
        if drafts.is_empty() {
            return Self::default();
        }
        let mut own = Vec::with_capacity(drafts.iter().map(|(_, draft)| draft.own.len()).sum());
        let mut records = Vec::with_capacity(drafts.len());
        for (tenant, draft) in drafts {
            let first = own.len() as u32;
            // More would be thousands of times the normal number, and are dropped.
            own.extend_from_slice(&draft.own[..draft.own.len().min(MOST_IN_SHARD - own.len())]);
            let of_tenant = &own[first as usize..];
            let (count, only) = (of_tenant.len() as u32, Record::only(of_tenant));
            records.push(Record { tenant: *tenant, tier: draft.tier.unwrap_or(NO_TIER), first, count, only });
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

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the tier and the overrides of a tenant. `number` is the number of this shard.
    #[inline]
    pub(super) fn find(&self, number: u32, tenant: Key) -> Option<TenantOverrides<'_>> {
        let record = self.record(tenant)?;
        let limits = self.own.get(record.first as usize..(record.first + record.count) as usize)?;
        let first = OverrideIndex { shard: number, index: record.first };
        Some(TenantOverrides { tier: record.tier, limits, first })
    }

    /// Returns the tenant's override for the only limit of a rule, if that needs no search.
    #[inline]
    pub(super) fn only_override(&self, tenant: Key, rule: u32) -> OverrideLookup<'_> {
        let Some(record) = self.record(tenant) else { return OverrideLookup::NONE };
        if record.only == rule {
            return OverrideLookup { limit: self.own.get(record.first as usize), index: record.first };
        }
        if record.only == Record::SEVERAL_LIMITS { OverrideLookup::UNKNOWN } else { OverrideLookup::NONE }
    }

    #[inline]
    fn record(&self, tenant: Key) -> Option<&Record> {
        let last = self.slots.len().wrapping_sub(1);
        let mut at = tenant.mark as usize & last;
        // The loop ends, because there is a free slot. An empty shard has no slots.
        loop {
            let record = self.records.get(*self.slots.get(at)? as usize)?;
            if record.tenant == tenant {
                return Some(record);
            }
            at = (at + 1) & last;
        }
    }

    pub(super) fn drafts(&self) -> impl Iterator<Item = (Key, Draft)> {
        self.records.iter().map(|record| {
            let own = &self.own[record.first as usize..(record.first + record.count) as usize];
            let tier = Some(record.tier).filter(|tier| *tier != NO_TIER);
            (record.tenant, Draft { tier, own: own.to_vec() })
        })
    }

    pub(super) fn changed(&self, changes: Vec<(Key, Option<Draft>)>) -> Self {
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
