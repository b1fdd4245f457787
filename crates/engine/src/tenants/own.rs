//! What one tenant has: a tier, and limits in place of some in the rules.

use tidegate_core::Limit;

/// So many limits of tenants are in one shard at most; items of decisions have three bytes for it.
pub(super) const MOST_IN_SHARD: usize = 1 << 24;

/// The number of no tier.
pub(super) const NO_TIER: u32 = u32::MAX;

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
    pub(crate) shard: u32,
    /// Below [`MOST_IN_SHARD`].
    pub(crate) index: u32,
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
    pub(super) tier: u32,
    pub(crate) limits: &'t [OwnLimit],
    /// The place of the first.
    pub(super) first: OwnPlace,
}

/// What one tenant has in place of the only limit of a rule. Two words, so that it stays in registers.
#[derive(Clone, Copy)]
pub(crate) struct Instead<'t> {
    /// Applies whatever the descriptor's values are.
    pub(crate) limit: Option<&'t OwnLimit>,
    /// Where in its shard; or without a limit, whether that is known.
    pub(crate) index: u32,
}

impl Instead<'_> {
    pub(super) const NOTHING: Self = Self { limit: None, index: 0 };
    /// Has to be found out the longer way.
    pub(super) const UNKNOWN: Self = Self { limit: None, index: u32::MAX };

    #[inline]
    pub(crate) fn is_nothing(self) -> bool {
        self.limit.is_none() && self.index == 0
    }
}

/// A tenant on its way into the table.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) tier: Option<u32>,
    pub(crate) own: Vec<OwnLimit>,
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
        let tier = Some(self.tier).filter(|tier| *tier != NO_TIER);
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
