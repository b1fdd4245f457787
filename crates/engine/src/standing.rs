//! Whose numbers a limit has, and what a denial by it does.

use tidegate_stores::Force;

use crate::tenants::own::OwnPlace;

/// Whose numbers a limit has: the rule's, a tier's or a tenant's own; and what a denial by it does. One word,
/// because every decision makes one and copies it.
///
/// From the highest bit: the shard of the tenant's own limit, or a number above all of those which ends with
/// the tier; the index in the shard; the force.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing(u64);

impl Standing {
    const INDEX_AT: u32 = 8;
    const SHARD_AT: u32 = 32;
    /// All bits but those of the force.
    const RULE: u64 = u64::MAX << Self::INDEX_AT;
    /// With the tier added, less than that of no tier: there are at most 65,535.
    const TIERS: u32 = u32::MAX - u16::MAX as u32;

    /// Of a limit with the rule's own numbers.
    #[inline]
    pub(crate) fn of_rule(force: Force) -> Self {
        Self(Self::RULE | force as u64)
    }

    #[inline]
    pub(crate) fn new(tier: Option<u16>, own: OwnPlace, force: Force) -> Self {
        if !own.is_none() {
            return Self::of_rule(force).of_tenant(own);
        }
        let Some(tier) = tier else { return Self::of_rule(force) };
        let tier = u64::from(Self::TIERS + u32::from(tier)) << Self::SHARD_AT;
        Self(tier | (Self::RULE & u64::from(u32::MAX)) | force as u64)
    }

    /// The same force, of a limit that a tenant has of its own.
    #[inline]
    pub(crate) fn of_tenant(self, own: OwnPlace) -> Self {
        let OwnPlace { shard, index } = own;
        let place = u64::from(shard) << Self::SHARD_AT | u64::from(index) << Self::INDEX_AT;
        Self(place | (self.0 & !Self::RULE))
    }

    /// Whether it is evaluated and counted only.
    #[inline]
    pub(crate) fn is_shadow(self) -> bool {
        self.0 & !Self::RULE == Force::Shadow as u64
    }

    #[inline]
    pub(crate) fn force(self) -> Force {
        [Force::Enforced, Force::Shadow, Force::Quota][(self.0 & 3).min(2) as usize]
    }

    pub(crate) fn tier(self) -> Option<u16> {
        let tier = self.shard_or_tier().checked_sub(Self::TIERS)?;
        (self.0 | !Self::RULE != u64::MAX).then_some(tier as u16)
    }

    pub(crate) fn own(self) -> Option<OwnPlace> {
        let (shard, index) = (self.shard_or_tier(), (self.0 as u32) >> Self::INDEX_AT);
        (shard < Self::TIERS).then_some(OwnPlace { shard, index })
    }

    fn shard_or_tier(self) -> u32 {
        (self.0 >> Self::SHARD_AT) as u32
    }
}
