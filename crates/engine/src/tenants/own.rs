//! The tier and the overrides of one tenant, as decisions look them up.

use tidegate_core::Limit;

/// The most overrides in one shard. The items of decisions have three bytes for the index.
pub(super) const MOST_IN_SHARD: usize = 1 << 24;

/// The number that means no tier.
pub(super) const NO_TIER: u32 = u32::MAX;

/// A resolved override: a limit that replaces one of the rules for one tenant.
#[derive(Clone, PartialEq)]
pub(crate) struct OverrideLimit {
    /// The index of the rule among the rules of all domains ([`RuleEntry::global_index`]).
    ///
    /// [`RuleEntry::global_index`]: crate::rules::tree::RuleEntry::global_index
    pub(crate) rule: u32,
    /// The descriptor entries that must have a certain value: one bit each, the first entry lowest.
    pub(crate) given: u32,
    /// The fingerprint of those values.
    pub(crate) values: u64,
    pub(crate) salt: u64,
    /// The index of the replaced limit among the rule's own limits.
    pub(crate) number: u16,
    /// The new limit; `None` for unlimited.
    pub(crate) limit: Option<Limit>,
}

/// The position of an override in the table of tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverrideIndex {
    pub(crate) shard: u32,
    /// The index in the shard, below [`MOST_IN_SHARD`].
    pub(crate) index: u32,
}

impl OverrideIndex {
    /// The position of limits that are not overrides.
    pub(crate) const NONE: Self = Self { shard: u32::MAX, index: u32::MAX };

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.shard == u32::MAX
    }
}

/// The tier and the overrides of one tenant.
#[derive(Clone, Copy)]
pub(crate) struct TenantOverrides<'t> {
    pub(super) tier: u32,
    pub(crate) limits: &'t [OverrideLimit],
    /// The position of the first override.
    pub(super) first: OverrideIndex,
}

/// The result of the fast lookup of a tenant's override for the only limit of a rule. It has two words, so
/// that it stays in registers.
#[derive(Clone, Copy)]
pub(crate) struct OverrideLookup<'t> {
    /// The override, which applies whatever the values of the descriptor are.
    pub(crate) limit: Option<&'t OverrideLimit>,
    /// The index in the shard. Without a limit: 0 if there is no override, `u32::MAX` if that is unknown.
    pub(crate) index: u32,
}

impl OverrideLookup<'_> {
    /// There is no override.
    pub(super) const NONE: Self = Self { limit: None, index: 0 };
    /// The general lookup is needed.
    pub(super) const UNKNOWN: Self = Self { limit: None, index: u32::MAX };

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.limit.is_none() && self.index == 0
    }
}

/// The tier and the overrides of a tenant, before they are put into the table.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) tier: Option<u32>,
    pub(crate) own: Vec<OverrideLimit>,
}

impl<'t> TenantOverrides<'t> {
    /// Returns the overrides for a rule, in the order of its limits. For each limit, the most specific
    /// override comes first.
    #[inline]
    pub(crate) fn of_rule(self, rule: u32) -> Option<Self> {
        // Most tenants have at most one override.
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

    /// Returns the position of the override at `index`.
    #[inline]
    pub(crate) fn index_of(&self, index: usize) -> OverrideIndex {
        OverrideIndex { index: self.first.index + index as u32, ..self.first }
    }

    /// Returns the most specific override for the rule's limit with this number that matches the entries.
    /// `values` returns the fingerprint of the values of the given entries.
    #[inline]
    pub(crate) fn limit(
        &self,
        number: u16,
        values: impl Fn(u32) -> u64,
    ) -> Option<(OverrideIndex, &'t OverrideLimit)> {
        match self.limits {
            [only] => {
                let fits = only.number == number && (only.given == 0 || values(only.given) == only.values);
                fits.then_some((self.first, only))
            }
            _ => self.limit_among(number, values),
        }
    }

    fn limit_among(
        &self,
        number: u16,
        values: impl Fn(u32) -> u64,
    ) -> Option<(OverrideIndex, &'t OverrideLimit)> {
        let mut at = self.limits.partition_point(|own| own.number < number);
        while let Some(first) = self.limits.get(at).filter(|own| own.number == number) {
            let rest = &self.limits[at..];
            let alike = rest.partition_point(|own| own.number == number && own.given == first.given);
            let values_wanted = if first.given == 0 { first.values } else { values(first.given) };
            if let Ok(found) = rest[..alike].binary_search_by_key(&values_wanted, |own| own.values) {
                return Some((self.index_of(at + found), &rest[found]));
            }
            at += alike;
        }
        None
    }

    /// Returns a copy that can be put into a table.
    pub(crate) fn draft(&self) -> Draft {
        let tier = Some(self.tier).filter(|tier| *tier != NO_TIER);
        Draft { tier, own: self.limits.to_vec() }
    }
}

impl OverrideLimit {
    /// Returns the sort key for the order in which [`TenantOverrides::limit`] searches: overrides with more
    /// given values come first, and of those with equally many, the ones whose values are earlier in the
    /// descriptor.
    pub(crate) fn order(&self) -> impl Ord + use<> {
        let special = std::cmp::Reverse((self.given.count_ones(), self.given.reverse_bits()));
        (self.rule, self.number, special, self.values)
    }
}
