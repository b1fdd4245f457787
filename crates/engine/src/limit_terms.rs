//! The terms under which a limit applies to a request.

use tidegate_stores::Force;

use crate::tenants::own::OverrideIndex;

/// The terms under which a limit applies: whose numbers it has (the rule's, a tier's or a tenant's), and what a denial
/// does. It is one word, because every decision creates and copies one.
///
/// From the highest bit: the shard of the tenant's override, or [`LimitTerms::TIERS`] plus the tier; the index in the
/// shard; the force.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitTerms(u64);

impl LimitTerms {
    const INDEX_AT: u32 = 8;
    const SHARD_AT: u32 = 32;
    /// All bits except those of the force.
    const RULE: u64 = u64::MAX << Self::INDEX_AT;
    /// Above the number of any shard. Plus a tier it is below `u32::MAX`, because there are at most 65,535 tiers.
    const TIERS: u32 = u32::MAX - u16::MAX as u32;

    /// Creates the terms of a limit with the rule's own numbers.
    #[inline]
    pub(crate) fn of_rule(force: Force) -> Self {
        Self(Self::RULE | force as u64)
    }

    #[inline]
    pub(crate) fn new(tier: Option<u16>, own: OverrideIndex, force: Force) -> Self {
        if !own.is_none() {
            return Self::of_rule(force).of_tenant(own);
        }
        let Some(tier) = tier else { return Self::of_rule(force) };
        let tier = u64::from(Self::TIERS + u32::from(tier)) << Self::SHARD_AT;
        Self(tier | (Self::RULE & u64::from(u32::MAX)) | force as u64)
    }

    /// Returns these terms for an override of a tenant, with the same force.
    #[inline]
    pub(crate) fn of_tenant(self, own: OverrideIndex) -> Self {
        let OverrideIndex { shard, index } = own;
        let position = u64::from(shard) << Self::SHARD_AT | u64::from(index) << Self::INDEX_AT;
        Self(position | (self.0 & !Self::RULE))
    }

    /// Returns whether the limit is evaluated and counted only.
    #[inline]
    pub(crate) fn is_shadow(self) -> bool {
        self.0 & !Self::RULE == Force::Shadow as u64
    }

    #[inline]
    pub(crate) fn force(self) -> Force {
        const FORCES: [Force; 4] = [Force::Enforced, Force::Shadow, Force::Quota, Force::Quota];
        FORCES[(self.0 & 3) as usize]
    }

    pub(crate) fn tier(self) -> Option<u16> {
        let tier = self.shard_or_tier().checked_sub(Self::TIERS)?;
        (self.0 | !Self::RULE != u64::MAX).then_some(tier as u16)
    }

    pub(crate) fn own(self) -> Option<OverrideIndex> {
        let (shard, index) = (self.shard_or_tier(), (self.0 as u32) >> Self::INDEX_AT);
        (shard < Self::TIERS).then_some(OverrideIndex { shard, index })
    }

    fn shard_or_tier(self) -> u32 {
        (self.0 >> Self::SHARD_AT) as u32
    }
}
