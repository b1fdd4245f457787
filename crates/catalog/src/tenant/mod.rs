//! A customer, its tier and its overrides.
//!
//! - [`draft`]: what is asked for, and how it is checked
//! - [`table`]: how it is stored

pub(crate) mod draft;
pub(crate) mod table;

use jiff::Timestamp;
use serde::Serialize;

use crate::Descriptor;

pub use draft::{MAX_DESCRIPTOR, MAX_OVERRIDES, OverrideDraft, TenantDraft};
pub use table::TenantFilter;

/// A customer, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tenant {
    /// Its name: up to 256 characters.
    pub name: String,
    /// The name of its tier, which the rules may or may not know.
    pub tier: Option<String>,
    /// Its own limits, in the order they were given.
    pub overrides: Vec<Override>,
    /// Rises with every change.
    pub revision: u64,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// A tenant's own limit, with start and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Override {
    /// The domain it is for; none: every domain.
    pub domain: Option<String>,
    /// The requests it is for.
    pub descriptor: Descriptor,
    /// The limit of the rule it replaces; none: the only one.
    pub limit: Option<String>,
    /// What it allows.
    #[serde(flatten)]
    pub allowance: Allowance,
    /// The first moment it holds; none: it always did.
    pub effective_at: Option<Timestamp>,
    /// The first moment it no longer holds; none: it always will.
    pub expires_at: Option<Timestamp>,
    /// When it was first put.
    pub created_at: Timestamp,
}

/// What an override allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowance {
    /// Everything.
    Unlimited,
    /// So much.
    Limited(Numbers),
}

/// The numbers of a limit. What is left out is as the rule says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// Requests per window; 0 blocks.
    pub requests: u64,
    /// The window.
    pub window: Option<Window>,
    /// The burst.
    pub burst: Option<u64>,
    /// The algorithm, by its name in rule files.
    pub algorithm: Option<String>,
}

/// How long the numbers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// A unit by its name.
    Unit(Unit),
    /// A length in microseconds.
    DurationUs(u64),
}

/// The named windows. A month has 30 days and a year 365.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
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
    /// All of them, shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Its name.
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

    /// The unit of that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }
}

impl Override {
    /// Whether it holds at a moment.
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.effective_at.is_none_or(|start| start <= at) && self.expires_at.is_none_or(|end| at < end)
    }

    /// Whether it is the same but for when it was put.
    pub(crate) fn says_as(&self, other: &Self) -> bool {
        let undated = |one: &Self| Self { created_at: Timestamp::UNIX_EPOCH, ..one.clone() };
        undated(self) == undated(other)
    }
}
