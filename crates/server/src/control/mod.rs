//! The control plane of a node: what the catalog says, in force here.
//!
//! Changes are written to the catalog, on `SQLite` in the data folder or on `PostgreSQL`. Every node follows it
//! and hands what changes to its limiter, so that no decision ever asks a database. With `PostgreSQL` a node
//! keeps a copy in its data folder: it starts from it while `PostgreSQL` is away, and its limiter reads it.
//!
//! - [`follow`][]: keeping up with the catalog
//! - [`clock`][]: the time by which overrides and tokens begin and end
//! - [`switches`][]: kill switches, and which of several counts
//! - [`tenants`][]: from the catalog's tenants to the limiter's
//! - [`write`][]: changes that administrators make; [`record`][]: writing them down
//! - [`read`][]: what they look at
//! - [`purge`][]: what need not be kept any longer
//! - [`health`][]: how far behind the catalog this node is

pub mod clock;
mod follow;
pub mod health;
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
use tokio::sync::{Mutex, Notify};

pub use self::clock::CatalogClock;
use self::follow::Followed;
pub use self::health::CatalogHealth;
use self::record::Unrecorded;
pub(crate) use self::switches::ALL;
use self::switches::SwitchBoard;
pub use self::tenants::{CatalogTenants, engine_override};
use crate::access::Book;
use crate::config::settings::CatalogPlace;

/// Cheap to clone: all clones are the same.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    /// Where changes are written.
    catalog: Catalog,
    /// Where this node reads from: the same, or its copy.
    local: Catalog,
    is_copy: bool,
    /// Known once it is built: it reads tenants from here.
    limiter: OnceLock<Limiter>,
    book: Book,
    trail: Option<Trail>,
    retention: Retention,
    node: String,
    health: CatalogHealth,
    /// Locked while something is put in force, so that changes do not overtake each other.
    followed: Mutex<Followed>,
    /// Held while they are put in force.
    switches: parking_lot::Mutex<SwitchBoard>,
    /// Changes that are not in the audit files yet.
    unrecorded: Unrecorded,
    /// Up to when overrides have begun and ended. Locked while tenants are put in force.
    turned: Mutex<Timestamp>,
    /// The next override may begin or end sooner than was known.
    retime: Notify,
    /// `PostgreSQL` told of a change.
    told: Notify,
}

/// Makes the file for nobody else to read, if it is not there. What cannot be made is told by who opens it.
fn private(path: PathBuf) -> PathBuf {
    let _ = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    path
}

/// What a control plane is made of besides the catalog.
pub struct Parts {
    /// The tokens that count.
    pub book: Book,
    /// Where changes are written down besides the catalog.
    pub trail: Option<Trail>,
    /// The switches of the settings.
    pub switches: Switches,
    /// How to hear of changes in the catalog.
    pub listen: Listen,
    /// Whether a node that never knew the catalog is not ready.
    pub required: bool,
    /// How much of what was before the catalog keeps.
    pub retention: Retention,
    /// What this node is called.
    pub node: String,
}

impl Control {
    /// Opens the catalog, and brings the copy up to date if there is one. A `PostgreSQL` that is away is no
    /// reason not to start.
    ///
    /// # Errors
    /// If the database in the data folder cannot be used.
    pub async fn open(place: &CatalogPlace, data: &Path, parts: Parts) -> Result<Self, Error> {
        let (catalog, local) = match place {
            CatalogPlace::Sqlite => {
                let catalog = Catalog::sqlite(private(data.join("catalog.db"))).await?;
                (catalog.clone(), catalog)
            }
            CatalogPlace::Postgres(url) => {
                let catalog = Catalog::postgres_listening(url, parts.listen.clone())?;
                (catalog, Catalog::sqlite(private(data.join("catalog-copy.db"))).await?)
            }
        };
        let is_copy = matches!(place, CatalogPlace::Postgres(_));
        let Parts { book, trail, switches, listen: _, required, retention, node } = parts;
        let health = CatalogHealth::new(book.clock().clone(), required);
        let inner = Inner {
            catalog,
            local,
            is_copy,
            limiter: OnceLock::new(),
            book,
            trail,
            switches: parking_lot::Mutex::new(SwitchBoard::new(switches)),
            unrecorded: Unrecorded::default(),
            retention,
            node,
            health,
            followed: Mutex::default(),
            turned: Mutex::default(),
            retime: Notify::new(),
            told: Notify::new(),
        };
        let control = Self(Arc::new(inner));
        if is_copy {
            control.update_copy().await?;
        } else {
            control.0.health.set_known();
        }
        control.begin().await?;
        Ok(control)
    }

    /// The tokens that count.
    pub fn book(&self) -> &Book {
        &self.0.book
    }

    /// How far behind the catalog this node is.
    pub fn health(&self) -> &CatalogHealth {
        &self.0.health
    }

    /// The time by which overrides and tokens begin and end.
    pub fn now(&self) -> Timestamp {
        self.0.book.clock().now()
    }

    /// Where the limiter reads tenants from. For threads that may wait.
    pub fn tenants(&self) -> CatalogTenants {
        CatalogTenants::new(self.0.local.clone(), self.0.book.clock().clone())
    }

    /// What is written down besides the catalog.
    pub fn trail(&self) -> Option<&Trail> {
        self.0.trail.as_ref()
    }
}
