//! Tenants: their tiers, and limits of their own in place of those in the rules.
//!
//! What applies to a tenant is its override, else what its tier has, else the rule's own limit. All rules
//! that a request falls under still apply together.
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
//! - `table`, `shard`, `own`: what decisions look up, shared between one change and the next
//! - `walk`: the rules that a tenant and a descriptor lead to
//! - `resolve`: from an override as written to limits in the table
//! - [`problem`]: why an override is none
//! - `change`: putting tenants in force
//! - [`limits`], [`usage`]: what applies to a tenant, and how much of it is used

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

/// A customer, with what is in effect for it now.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// The value of the entry that names it.
    pub name: String,
    /// Its tier; where absent, the one that the rules put it on.
    pub tier: Option<String>,
    /// Limits of its own.
    pub overrides: Vec<Override>,
}

/// A limit of one tenant, in place of one in the rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The domain; where absent, every one that has such a rule.
    pub domain: Option<String>,
    /// The entries that lead to the rule besides the tenant's, in order; none for the tenant's own rule.
    /// An entry without a value stands for every value of its key.
    pub descriptor: Vec<(String, Option<String>)>,
    /// Which of the rule's limits; where absent, the one with the same window, or the only one.
    pub limit: Option<String>,
    /// What the tenant has instead.
    pub instead: TierLimit,
}

/// What has become of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub enum TenantChange {
    /// From now on it is this, whatever it was.
    Put(Tenant),
    /// It is one like any other.
    Gone(String),
}

/// Where tenants come from. It is read whenever rules are loaded, so that nobody else has to keep what
/// was written.
pub trait TenantSource: Send + Sync {
    /// Hands over every tenant that has a tier or overrides now.
    ///
    /// # Errors
    /// Why they cannot be read; the rules and tenants from before then stay in force.
    fn each(&self, put: &mut dyn FnMut(Tenant)) -> Result<(), String>;
}

impl Tenant {
    /// A tenant without a tier or limits of its own.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), tier: None, overrides: Vec::new() }
    }

    /// Puts it on a tier.
    #[must_use]
    pub fn tier(mut self, tier: &str) -> Self {
        self.tier = Some(tier.to_owned());
        self
    }

    /// Adds a limit of its own.
    #[must_use]
    pub fn with(mut self, limit: Override) -> Self {
        self.overrides.push(limit);
        self
    }
}

impl Override {
    /// Other numbers for the tenant's own rule, in every domain.
    pub fn of(change: LimitChange) -> Self {
        Self { domain: None, descriptor: Vec::new(), limit: None, instead: TierLimit::Change(change) }
    }

    /// No limit for the tenant's own rule, in every domain.
    pub fn unlimited() -> Self {
        Self { instead: TierLimit::Unlimited, ..Self::of(LimitChange::default()) }
    }

    /// Narrows it to one domain.
    #[must_use]
    pub fn domain(mut self, domain: &str) -> Self {
        self.domain = Some(domain.to_owned());
        self
    }

    /// Narrows it to the rule of one entry more; every value of the key where `value` is absent.
    #[must_use]
    pub fn entry(mut self, key: &str, value: Option<&str>) -> Self {
        self.descriptor.push((key.to_owned(), value.map(str::to_owned)));
        self
    }

    /// Says which of the rule's limits it is about.
    #[must_use]
    pub fn limit(mut self, name: &str) -> Self {
        self.limit = Some(name.to_owned());
        self
    }
}
