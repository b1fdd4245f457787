//! Tenants, their tiers and overrides.
//!
//! - [`draft`]: tenants in requests, and their validation
//! - [`table`]: how tenants are stored

pub(crate) mod draft;
pub(crate) mod table;

use jiff::Timestamp;
use serde::Serialize;

use crate::Descriptor;

pub use draft::{MAX_DESCRIPTOR, MAX_OVERRIDES, OverrideDraft, TenantDraft};
pub use table::TenantFilter;

/// A stored tenant: a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tenant {
    /// The name, of 1 to 256 characters.
    pub name: String,
    /// The name of the tier, if any. The rules need not define it.
    pub tier: Option<String>,
    /// The tenant's own limits, in the order they were given.
    pub overrides: Vec<Override>,
    /// The version of the catalog that changed the tenant last. Rises with every change.
    pub revision: u64,
    /// When the tenant was last changed.
    pub updated_at: Timestamp,
}

/// A tenant's own limit, with an optional start and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Override {
    /// The domain that the override applies to; `None` for every domain.
    pub domain: Option<String>,
    /// The requests that the override applies to.
    pub descriptor: Descriptor,
    /// The name of the limit that it replaces; `None` if the rule has only one.
    pub limit: Option<String>,
    /// What the override allows.
    #[serde(flatten)]
    pub allowance: Allowance,
    /// When the override takes effect; `None` if it has no start.
    pub effective_at: Option<Timestamp>,
    /// When the override ends; `None` if it has no end. At this time it no longer applies.
    pub expires_at: Option<Timestamp>,
    /// When the override was first stored.
    pub created_at: Timestamp,
}

/// What an override allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowance {
    /// Everything is allowed.
    Unlimited,
    /// A limit with these numbers.
    Limited(Numbers),
}

/// The numbers of a limit. A field that is `None` is taken from the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// Requests per window; 0 blocks the tenant.
    pub requests: u64,
    /// The window.
    pub window: Option<Window>,
    /// The burst.
    pub burst: Option<u64>,
    /// The algorithm, by its name in rule files.
    pub algorithm: Option<String>,
}

/// The window of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// A named unit.
    Unit(Unit),
    /// A length in microseconds.
    DurationUs(u64),
}

/// The named windows. A month is 30 days and a year 365 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    /// All units, shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Returns the name of the unit in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Returns the unit with this name. Upper and lower case are equal.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }
}

impl Override {
    /// Returns whether the override applies at `at`.
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.effective_at.is_none_or(|start| start <= at) && self.expires_at.is_none_or(|end| at < end)
    }

    /// Returns whether the overrides are equal except for `created_at`.
    pub(crate) fn equals_undated(&self, other: &Self) -> bool {
        let undated = |one: &Self| Self { created_at: Timestamp::UNIX_EPOCH, ..one.clone() };
        undated(self) == undated(other)
    }
}
