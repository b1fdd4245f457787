//! Tenants, their tiers, and their overrides of limits in the rules.
//!
//! For each limit, the tenant's override applies; else the limit of its tier; else the rule's own limit. All
//! rules that match a request still apply together.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::{Domain, LimitChange, Limiter, Override, Request, Rule, Tenant, TenantChange, per_minute};
//!
//! let api = Domain::new("api").tenant_key("api_key").rule(Rule::by("api_key").limit(per_minute(10)));
//! let limiter = Limiter::builder().domain(api).build()?;
//!
//! let more = LimitChange { requests: Some(500), ..LimitChange::default() };
//! let acme = Tenant::new("acme").with(Override::of(more));
//! limiter.change_tenants([TenantChange::Put(acme)]);
//!
//! let request = Request::new("api", [("api_key", "acme")]);
//! assert_eq!(limiter.check_now(&request).remaining(), Some(499));
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! # Layout
//!
//! - `table`, `shard`, `own`: the table that decisions look up; unchanged parts are shared between versions
//! - `walk`: finds the rules for a tenant and a descriptor
//! - `resolve`: resolves overrides to limits in the table
//! - [`problem`]: reasons why an override is rejected
//! - `change`: applies changes of tenants
//! - [`limits`], [`usage`]: the limits of a tenant, and their usage

mod change;
pub mod limits;
pub(crate) mod own;
pub mod problem;
pub(crate) mod resolve;
mod shard;
pub(crate) mod table;
pub mod usage;
mod walk;

use crate::rules::limit_spec::LimitChange;
use crate::rules::model::TierLimit;

/// A tenant (a customer) with its tier and the overrides that are in effect now.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// The name: the value of the entry that identifies the tenant.
    pub name: String,
    /// The tier; if `None`, the one that the rules assign to the tenant.
    pub tier: Option<String>,
    /// The overrides.
    pub overrides: Vec<Override>,
}

/// A limit of one tenant that replaces one in the rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The domain; if `None`, every domain that has such a rule.
    pub domain: Option<String>,
    /// The entries that lead to the rule, in order and without the tenant's; empty for the tenant's own rule.
    /// An entry without a value matches every value of its key.
    pub descriptor: Vec<(String, Option<String>)>,
    /// The name of the rule's limit; if `None`, the limit with the same window, or the only one.
    pub limit: Option<String>,
    /// The numbers that replace those of the limit for this tenant.
    pub replacement: TierLimit,
}

/// A change of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub enum TenantChange {
    /// Creates or replaces the tenant.
    Put(Tenant),
    /// Removes the tier and the overrides of the tenant with this name.
    Gone(String),
}

/// The source of tenants. It is read whenever rules are loaded, so that overrides need not be kept in memory
/// as they were written.
pub trait TenantSource: Send + Sync {
    /// Calls `put` for every tenant that has a tier or overrides now.
    ///
    /// # Errors
    /// Returns why the tenants cannot be read. Then the earlier rules and tenants stay in force.
    fn each(&self, put: &mut dyn FnMut(Tenant)) -> Result<(), ReadError>;
}

/// Why a [`TenantSource`] cannot be read.
pub type ReadError = Box<dyn std::error::Error + Send + Sync>;

impl Tenant {
    /// Creates a tenant without a tier or overrides.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), tier: None, overrides: Vec::new() }
    }

    /// Sets the tier.
    #[must_use]
    pub fn tier(mut self, tier: &str) -> Self {
        self.tier = Some(tier.to_owned());
        self
    }

    /// Adds an override.
    #[must_use]
    pub fn with(mut self, limit: Override) -> Self {
        self.overrides.push(limit);
        self
    }
}

impl Override {
    /// Creates an override with other numbers for the tenant's own rule, in every domain.
    pub fn of(change: LimitChange) -> Self {
        Self { domain: None, descriptor: Vec::new(), limit: None, replacement: TierLimit::Change(change) }
    }

    /// Creates an override without a limit for the tenant's own rule, in every domain.
    pub fn unlimited() -> Self {
        Self { replacement: TierLimit::Unlimited, ..Self::of(LimitChange::default()) }
    }

    /// Restricts the override to one domain.
    #[must_use]
    pub fn domain(mut self, domain: &str) -> Self {
        self.domain = Some(domain.to_owned());
        self
    }

    /// Adds an entry to the descriptor. A `value` of `None` matches every value of the key.
    #[must_use]
    pub fn entry(mut self, key: &str, value: Option<&str>) -> Self {
        self.descriptor.push((key.to_owned(), value.map(str::to_owned)));
        self
    }

    /// Sets the name of the rule's limit that is replaced.
    #[must_use]
    pub fn limit(mut self, name: &str) -> Self {
        self.limit = Some(name.to_owned());
        self
    }
}
