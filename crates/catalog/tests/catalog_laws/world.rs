//! What a law needs: an empty catalog, and some ways to fill it.

use std::path::PathBuf;
use std::sync::LazyLock;

use jiff::Timestamp;
use tempfile::TempDir;
use tidegate_catalog::{By, Catalog, OverrideDraft, TenantDraft};
use tidegate_testkit::postgres::{Pooler, PostgresServer};

/// One server for all laws that do it no harm; each has a database of its own.
pub(crate) static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// A pooler before it in statement mode, which may send every message to another connection.
static PER_STATEMENT: LazyLock<Pooler> = LazyLock::new(|| Pooler::in_mode(&SERVER, "statement", 3));

/// A new database with an open catalog.
pub(crate) struct World {
    pub(crate) catalog: Catalog,
    place: Place,
}

enum Place {
    Sqlite(TempDir),
    Postgres(String),
    PerStatement(String),
}

impl World {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::sqlite(folder.path().join("catalog.db")).await.unwrap();
        Self { catalog, place: Place::Sqlite(folder) }
    }

    #[expect(clippy::unused_async, reason = "laws treat all alike")]
    pub(crate) async fn postgres() -> Self {
        let database = SERVER.create_database();
        let catalog = Catalog::postgres(&SERVER.url(&database)).unwrap();
        Self { catalog, place: Place::Postgres(database) }
    }

    #[expect(clippy::unused_async, reason = "laws treat all alike")]
    pub(crate) async fn per_statement() -> Self {
        let database = SERVER.create_database();
        let catalog = Catalog::postgres(&PER_STATEMENT.url(&database)).unwrap();
        Self { catalog, place: Place::PerStatement(database) }
    }

    /// Another node's view of the same database.
    pub(crate) async fn another(&self) -> Catalog {
        match &self.place {
            Place::Sqlite(_) => Catalog::sqlite(self.file().unwrap()).await.unwrap(),
            Place::Postgres(database) => Catalog::postgres(&SERVER.url(database)).unwrap(),
            Place::PerStatement(database) => Catalog::postgres(&PER_STATEMENT.url(database)).unwrap(),
        }
    }

    /// Where it is, if it is `SQLite`.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Sqlite(folder) => Some(folder.path().join("catalog.db")),
            Place::Postgres(_) | Place::PerStatement(_) => None,
        }
    }

    /// Its name, if it is `PostgreSQL`.
    pub(crate) fn database(&self) -> Option<&str> {
        match &self.place {
            Place::Sqlite(_) => None,
            Place::Postgres(database) | Place::PerStatement(database) => Some(database),
        }
    }
}

/// Seconds after some moment in 2026.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

pub(crate) fn ann() -> By {
    ann_at(0)
}

pub(crate) fn ann_at(seconds: i64) -> By {
    By::new("ann", "request-1", at(seconds))
}

pub(crate) fn tier(name: &str) -> TenantDraft {
    TenantDraft { tier: Some(name.to_owned()), overrides: Vec::new() }
}

/// An override of the tenant's own rule.
pub(crate) fn requests(requests: i64) -> OverrideDraft {
    OverrideDraft { requests: Some(requests), ..OverrideDraft::default() }
}

pub(crate) fn with(overrides: Vec<OverrideDraft>) -> TenantDraft {
    TenantDraft { tier: None, overrides }
}
