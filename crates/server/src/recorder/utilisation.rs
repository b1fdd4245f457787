//! How much of their limits keys have used, by tier: the distribution behind `ratelimit_remaining`.

use std::collections::BTreeMap;

use super::sample::Sample;

/// Maximum number of tiers that are counted separately; the others are counted together.
const MAX_TIERS: usize = 50;
/// The tier of keys that have none.
const NO_TIER: &str = "none";
/// The tier of those beyond the bound.
const OTHER: &str = "other";
/// Upper bounds of the buckets, in tenths of the limit.
pub(crate) const TENTHS: usize = 10;

/// The utilisation of one tier's limits.
#[derive(Clone, Default)]
pub(crate) struct TierUtilisation {
    /// Decisions by the tenth of the limit that was used afterwards: more than the bound before, at most this one.
    pub(crate) buckets: [u64; TENTHS],
    /// The sum of the shares that were used, in thousandths.
    pub(crate) sum_thousandths: u64,
}

/// How much of their limits keys have used, by tier.
#[derive(Default)]
pub(super) struct Utilisation(BTreeMap<Box<str>, TierUtilisation>);

impl Utilisation {
    pub(super) fn add(&mut self, sample: &Sample) {
        for rule in &sample.rules {
            let tier = rule.tier.as_deref().unwrap_or(NO_TIER);
            let tier = if self.0.contains_key(tier) || self.0.len() < MAX_TIERS { tier } else { OTHER };
            let (used, of) = (u128::from(rule.limit.used), u128::from(rule.limit.of.max(1)));
            let thousandths = (used * 1000 / of).min(1000) as u64;
            let tenth = ((used * 10).div_ceil(of) as usize).clamp(1, TENTHS) - 1;
            let weight = u64::from(sample.weight);
            let of_tier = self.0.entry(tier.into()).or_default();
            of_tier.buckets[tenth] += weight;
            of_tier.sum_thousandths = of_tier.sum_thousandths.saturating_add(thousandths * weight);
        }
    }

    pub(super) fn read(&self) -> Vec<(String, TierUtilisation)> {
        self.0.iter().map(|(tier, of)| (tier.to_string(), of.clone())).collect()
    }
}
