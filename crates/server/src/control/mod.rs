//! The control plane of a node, which puts the catalog in force.
//!
//! Changes are written to the catalog, in `SQLite` in the data folder or in `PostgreSQL`. Every node follows it and hands
//! changes to its limiter, so that no decision waits for a database. With `PostgreSQL`, a node keeps a copy in its data
//! folder: it starts from the copy while `PostgreSQL` is unreachable, and its limiter reads it.
//!
//! - [`follow`][]: follows the catalog
//! - [`clock`][]: the time by which overrides and tokens begin and end
//! - [`switches`][]: kill switches, and which of several applies
//! - [`tenants`][]: converts the catalog's tenants to the limiter's
//! - [`write`][]: changes that administrators make; [`record`][]: their audit records; [`outbox`][]: those that are not
//!   in the audit files yet
//! - [`read`][]: what administrators read
//! - [`purge`][]: removes old history
//! - [`health`][]: the health of the catalog as this node sees it

pub mod clock;
mod follow;
pub mod health;
mod outbox;
mod purge;
mod read;
mod record;
pub mod switches;
mod tenants;
mod write;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;

use jiff::Timestamp;
use tidegate::{Limiter, Switches};
use tidegate_audit::Trail;
use tidegate_catalog::{Catalog, Error, Listen, Retention};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};

pub use self::clock::CatalogClock;
use self::follow::CatalogState;
pub use self::health::CatalogHealth;
use self::outbox::Outbox;
use self::record::Uncertain;
pub(crate) use self::switches::ALL;
use self::switches::SwitchBoard;
pub use self::tenants::{CatalogTenants, engine_override};
use crate::access::TokenRegistry;
use crate::config::settings::CatalogLocation;
use crate::recorder::Recorder;

/// The control plane of a node. Clones share their state.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    /// The catalog that changes are written to.
    catalog: Catalog,
    /// The catalog that this node reads: the same, or its copy.
    local: Catalog,
    is_copy: bool,
    /// Set once it is built: it reads tenants from here.
    limiter: OnceLock<Limiter>,
    /// The runtime that the control plane runs on.
    runtime: Handle,
    registry: TokenRegistry,
    trail: Option<Trail>,
    retention: Retention,
    node: String,
    health: CatalogHealth,
    /// Locked while something is put in force, so that changes do not overtake each other.
    state: Mutex<CatalogState>,
    /// Locked while switches are put in force.
    switches: parking_lot::Mutex<SwitchBoard>,
    /// Changes that are not in the audit files yet.
    outbox: Outbox,
    /// Changes that may have been made or not.
    uncertain: Uncertain,
    /// Until when overrides have begun and ended. Locked while tenants are put in force.
    due_until: Mutex<Timestamp>,
    /// Notified when the next override may begin or end sooner than expected.
    retime: Notify,
    /// Notified when `PostgreSQL` announces a change.
    notified: Notify,
    /// Marks changes on the charts of the dashboard.
    recorder: OnceLock<Recorder>,
}

/// Creates a file that only its owner may read, if it does not exist. An error shows when it is opened.
fn private(path: PathBuf) -> PathBuf {
    let _ = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    path
}

/// The parts of a control plane besides the catalog.
pub struct ControlParts {
    /// The valid tokens.
    pub registry: TokenRegistry,
    /// The audit trail that changes are recorded in, besides the catalog.
    pub trail: Option<Trail>,
    /// The switches of the settings.
    pub switches: Switches,
    /// How to be notified of changes in the catalog.
    pub listen: Listen,
    /// Whether a node that has never read the catalog is not ready.
    pub required: bool,
    /// How much history the catalog keeps.
    pub retention: Retention,
    /// The name of this node.
    pub node: String,
}

impl Control {
    /// Opens the catalog, and updates the copy if there is one. It also starts while `PostgreSQL` is unreachable.
    ///
    /// # Errors
    /// If the database in the data folder cannot be used.
    pub async fn open(place: &CatalogLocation, data: &Path, parts: ControlParts) -> Result<Self, Error> {
        let (catalog, local) = match place {
            CatalogLocation::Sqlite => {
                let catalog = Catalog::sqlite(private(data.join("catalog.db"))).await?;
                (catalog.clone(), catalog)
            }
            CatalogLocation::Postgres(url) => {
                let catalog = Catalog::postgres_listening(url, parts.listen.clone())?;
                (catalog, Catalog::sqlite(private(data.join("catalog-copy.db"))).await?)
            }
        };
        let is_copy = matches!(place, CatalogLocation::Postgres(_));
        let ControlParts { registry, trail, switches, listen: _, required, retention, node } = parts;
        let health = CatalogHealth::new(registry.clock().clone(), required);
        let (outbox, left_behind) = Outbox::open(data.join("outbox"), node.clone(), health.clone());
        let inner = Inner {
            catalog,
            local,
            is_copy,
            limiter: OnceLock::new(),
            runtime: Handle::current(),
            registry,
            trail,
            switches: parking_lot::Mutex::new(SwitchBoard::new(switches)),
            outbox,
            uncertain: Uncertain::default(),
            retention,
            node,
            health,
            state: Mutex::default(),
            due_until: Mutex::default(),
            retime: Notify::new(),
            notified: Notify::new(),
            recorder: OnceLock::new(),
        };
        let control = Self(Arc::new(inner));
        if is_copy {
            control.update_copy().await?;
        } else {
            control.0.health.set_known();
        }
        control.load().await?;
        control.take_over(left_behind, &data.join("audit")).await;
        Ok(control)
    }

    /// Returns the valid tokens.
    pub fn registry(&self) -> &TokenRegistry {
        &self.0.registry
    }

    /// Returns the health of the catalog.
    pub fn health(&self) -> &CatalogHealth {
        &self.0.health
    }

    /// Returns the time by which overrides and tokens begin and end.
    pub fn now(&self) -> Timestamp {
        self.0.registry.clock().now()
    }

    /// Returns the tenants for the limiter, which are read on threads that may block.
    pub fn tenants(&self) -> CatalogTenants {
        CatalogTenants::new(self.0.local.clone(), self.0.registry.clock().clone(), self.0.runtime.clone())
    }

    /// Marks changes in this recorder from now on.
    pub fn set_recorder(&self, recorder: &Recorder) {
        // It is set once.
        let _ = self.0.recorder.set(recorder.clone());
    }

    /// Returns the audit trail.
    pub fn trail(&self) -> Option<&Trail> {
        self.0.trail.as_ref()
    }
}
