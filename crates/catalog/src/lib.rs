//! Tidegate's catalog: what changes while the service runs, in SQL.
//!
//! One [`Catalog`] stands for a `SQLite` file of this node's own or for a `PostgreSQL` database that many
//! nodes share. Decisions never ask it: nodes keep all of it in memory and follow its [`Changes`].
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use tidegate_catalog::{By, Catalog, OverrideDraft, Precondition, TenantDraft};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("catalog.db");
//! let catalog = Catalog::sqlite(&path).await?;
//! let draft = TenantDraft {
//!     tier: Some("pro".to_owned()),
//!     overrides: vec![OverrideDraft {
//!         descriptor: "endpoint:POST /api/v1/orders".to_owned(),
//!         requests: Some(500),
//!         unit: Some("minute".to_owned()),
//!         ..OverrideDraft::default()
//!     }],
//! };
//! let by = By::new("ann", "request-1", "2026-11-16T08:00:00Z".parse()?);
//! let tenant = catalog.put_tenant("acme", &draft, Precondition::Absent, &by).await?;
//! assert_eq!(catalog.changes_since(0).await?.version, tenant.revision);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it holds together
//!
//! Every write is one transaction. It first raises the one version of the catalog, which makes writers wait
//! for each other and versions appear in their order; it stamps what it changes with that version, its
//! [revision](Tenant::revision); and it writes the [`AuditEntry`] of that number. What is deleted stays as a
//! row, so that whoever asks for all rows above a version misses nothing. Once such a row is
//! [purged](Catalog::purge), whoever has not heard of it gets everything. A write that changes nothing
//! leaves no trace.
//!
//! # Layout
//!
//! - [`Catalog`]: open one; all calls
//! - [`Tenant`], [`Override`], [`Descriptor`]: customers and their limits; [`TenantDraft`] is how they are asked for
//! - [`Rules`]: rule sets and their versions
//! - [`Switch`], [`Token`], [`AuditEntry`]: what they say
//! - [`Changes`]: the feed of changes, and copies of a catalog; [`Listener`]: word of them
//! - [`Retention`]: how much of what was before stays
//! - [`By`], [`Precondition`]: who writes, and if what; [`Page`]: long lists
//! - `sql`: what differs between the two databases; `migrations/`: their tables

mod audit;
mod by;
mod catalog;
mod descriptor;
mod error;
mod feed;
mod listen;
mod name;
mod page;
mod plans;
mod retention;
mod rules;
mod sql;
mod switch;
mod tenant;
mod time;
mod token;

pub use audit::{AuditEntry, AuditFilter};
pub use by::{By, Precondition};
pub use catalog::{Catalog, DEADLINE};
pub use descriptor::{Descriptor, DescriptorError, Entry};
pub use error::{Error, Result};
pub use feed::{Changes, ClockReading, RulesChange, Status, TenantChange};
pub use listen::{Listen, Listener};
pub use name::{MAX_NAME, check as check_name};
pub use page::{MAX_PAGE, Page};
pub use retention::{PURGE_ROWS, PURGE_VERSIONS, Purged, Retention};
pub use rules::{MAX_RULES, Rules};
pub use switch::{Switch, SwitchMode};
pub use tenant::{
    Allowance, MAX_DESCRIPTOR, MAX_OVERRIDES, Numbers, Override, OverrideDraft, Tenant, TenantDraft,
    TenantFilter, Unit, Window,
};
pub use token::{Role, Token, TokenDraft, TokenHash};
