//! In-process rate limits: every algorithm, several limits per request, and reloadable rules.
//!
//! ```
//! use tidegate::{Domain, Limiter, Request, Rule, per_day, per_minute};
//!
//! let limiter = Limiter::builder()
//!     .domain(
//!         Domain::new("api")
//!             .rule(Rule::by("user").limit(per_minute(100).burst(20)).limit(per_day(5_000))),
//!     )
//!     .build()?;
//!
//! let request = Request::new("api", [("user", "ann")]);
//! let decision = limiter.check_now(&request);
//! assert!(decision.allowed());
//! assert_eq!(decision.remaining(), Some(19));
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! Rules may also come from files, in a superset of envoyproxy/ratelimit's format, and are reloaded
//! when the files change: see [`Builder::rules`].
//!
//! # Layout
//!
//! - [`limiter`]: the main type; [`builder`] builds it
//! - [`request`], [`decision`]: input and output of a decision
//! - [`reservation`]: charging an estimate first and the real cost later
//! - [`permit`]: slots of concurrency limits; `line`: requests that wait until they pass
//! - [`inline`]: limits that requests carry
//! - [`explain`]: the reasons of a decision; [`counts`]: counts of outcomes per rule; [`rule_outcome`]: the outcome of
//!   each rule in one decision
//! - [`rules`]: the rules, and where they come from
//! - [`tenants`]: tiers and overrides of tenants
//! - [`rendered`]: decisions made by a service, as the crate `tidegate-client` returns them
//! - [`spelling`]: the form in which a service accepts texts and costs of clients
//! - `decide`: from matched rules to a decision
//! - `keeper`: the background threads of a limiter

mod backend;
pub mod builder;
pub mod counts;
mod decide;
pub mod decision;
pub mod explain;
pub mod inline;
mod inline_registry;
mod keeper;
mod limit_terms;
pub mod limiter;
#[doc(hidden)]
pub mod line;
pub mod permit;
mod plan;
pub mod rendered;
pub mod request;
pub mod reservation;
pub mod rule_outcome;
pub mod rules;
pub mod snapshots;
pub mod spelling;
pub mod switches;
pub mod tenants;
#[doc(hidden)]
pub mod unnamed;
#[doc(hidden)]
pub mod warning;

pub use backend::*;
pub use builder::{BuildError, Builder};
pub use counts::{Counts, RuleCount};
pub use decision::{Decision, LimitStatus, Source, StatedLimit, Statement};
pub use explain::Explanation;
pub use inline::{InlineError, InlineLimits};
pub use limiter::Limiter;
pub use permit::{Acquired, Permit, SlotId};
pub use rendered::Rendered;
pub use request::Request;
pub use reservation::{Reservation, ReservationId, ReserveError, Reserved, SettleError, Settled};
pub use rule_outcome::{Crossing, RuleOutcome, RuleResult};
pub use rules::check::RulesChange;
pub use rules::forward_auth::{ForwardAuth, MappedEntry, Proxy, ValueFrom};
pub use rules::limit_spec::{
    AlgorithmName, Defaults, LimitChange, LimitSpec, per, per_day, per_hour, per_minute, per_second,
};
pub use rules::lint::{Finding, FindingKind, Severity, lint};
pub use rules::listing::{DomainListing, RateListing, RuleListing};
pub use rules::model::{Concurrency, Domain, OnStoreError, Rule, StoreErrorStage, TierLimit};
pub use rules::origins::update::{RulesText, Update};
pub use rules::origins::{Origin, Owner};
pub use rules::outline::RuleOutline;
pub use rules::problem::{Place, Problem, Problems};
pub use snapshots::SnapshotHealth;
pub use switches::{Switch, SwitchError, Switches};
pub use tenants::limits::{LimitOrigin, TenantLimit};
pub use tenants::problem::{OverrideField, OverrideProblem};
pub use tenants::usage::Usage;
pub use tenants::{Override, ReadError, Tenant, TenantChange, TenantSource};
pub use tidegate_core::{
    Calendar, CalendarUnit, Clock, Limit, LimitField, MAX_COUNT, Micros, VirtualClock, Window,
};

/// Runs the programs in the documentation as tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/library.md")]
    struct Library;
}
