//! Tidegate's catalog: an SQL database of tenants, overrides, rule sets, switches and tokens, which may
//! change while the service runs.
//!
//! A [`Catalog`] is a `SQLite` file that only this node uses, or a `PostgreSQL` database that many nodes
//! share. Decisions never query it: nodes keep its contents in memory and follow its [`Changes`].
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
//! # Versions
//!
//! Every write is one transaction. It first raises the version of the catalog, which makes writers wait for
//! each other, so that versions become visible in order. It marks the rows it changes with that version,
//! their [revision](Tenant::revision), and writes the [`AuditEntry`] with that ID. A deleted object stays as
//! a marked row, so that a reader of all rows above a version sees the deletion. Once such a row is
//! [purged](Catalog::purge), readers that have not seen it get the full contents. A write that changes
//! nothing has no version and no audit entry.
//!
//! # Layout
//!
//! - [`Catalog`]: opens a catalog; has all calls
//! - [`Tenant`], [`Override`], [`Descriptor`]: customers and their limits; [`TenantDraft`]: a tenant in a
//!   request
//! - [`Rules`]: rule sets and their versions
//! - [`Switch`], [`Token`], [`AuditEntry`]: the other objects
//! - [`Changes`]: the feed of changes, and copies of a catalog; [`Listener`]: notifications of changes
//! - [`Retention`]: how long the history is kept
//! - [`By`], [`Precondition`]: the author and the condition of a write; [`Page`]: pages of long lists
//! - `sql`: the differences between the two databases; `migrations/`: their tables

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
pub use catalog::{Catalog, DEADLINE, Journal};
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
