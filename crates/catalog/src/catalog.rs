//! The catalog: how to open it, and the transactions and deadlines of all its calls.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::sql::connection::Connection;
use crate::sql::pool::{Place, Pool};
use crate::sql::{Session, postgres, sqlite};
use crate::{AuditEntry, By, Listen};
use crate::{audit, time};

/// The deadline of a call.
pub const DEADLINE: Duration = Duration::from_secs(2);
/// The deadline of calls that read or write the full contents, which may be a hundred thousand tenants.
pub(crate) const LONG_DEADLINE: Duration = Duration::from_secs(30);

/// The SQL database of tenants, overrides, rule sets, switches, tokens and the audit trail. Clones are cheap
/// and share their connections.
#[derive(Clone)]
pub struct Catalog {
    pub(crate) pool: Pool,
    journal: Option<Journal>,
}

/// Collects the audit entries of the changes that are committed through a [`Catalog`] that
/// [writes](Catalog::with_journal) to it, so that a caller knows what was done without reading it back. Clones
/// share their entries.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Vec<AuditEntry>>>);

impl Journal {
    /// Takes the entries out, in the order of their commits.
    pub fn take(&self) -> Vec<AuditEntry> {
        mem::take(&mut self.0.lock())
    }

    fn push(&self, entry: AuditEntry) {
        self.0.lock().push(entry);
    }
}

/// A write in progress. It has a revision, and no other write gets one until it ends.
pub(crate) struct Write {
    session: Session,
    pub(crate) by: By,
    pub(crate) revision: u64,
}

/// The result of a write before it is committed.
pub(crate) enum Prepared<T> {
    /// There was nothing to change.
    Unchanged(T),
    /// Everything is written, but not committed.
    Changed(Box<(Session, AuditEntry)>, T),
}

impl Catalog {
    /// Opens the `SQLite` file at `path`, or creates it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened, or was written by a newer version of this program.
    pub async fn sqlite(path: impl AsRef<Path>) -> Result<Self> {
        let options = sqlite::Options::new(path.as_ref());
        options.make()?;
        let catalog = Self { pool: Pool::new(Place::Sqlite(Arc::new(options)))?, journal: None };
        catalog.migrate().await?;
        Ok(catalog)
    }

    /// Returns the catalog in the `PostgreSQL` database at `url`:
    /// `postgres://user:password@host:port,host:port/database`, with the query parameters `sslmode`,
    /// `sslrootcert`, `sslcert`, `sslkey`, `application_name` and `password_file`. Of several hosts, the one
    /// that accepts writes is used.
    ///
    /// This does not connect yet, because a node must be able to start while the database is down. The first
    /// call that reaches the database creates or updates its tables.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid.
    pub fn postgres(url: &str) -> Result<Self> {
        Self::postgres_listening(url, Listen::Auto)
    }

    /// Returns the catalog in the `PostgreSQL` database at `url`, as [`postgres`](Self::postgres) does, and
    /// chooses how to listen for changes.
    ///
    /// # Errors
    ///
    /// Returns an error if a URL is invalid.
    pub fn postgres_listening(url: &str, listen: Listen) -> Result<Self> {
        let hosts = postgres::Hosts::parse(url)?.listening(listen)?;
        Ok(Self { pool: Pool::new(Place::Postgres(Arc::new(hosts)))?, journal: None })
    }

    /// Returns a handle to the same database that writes the audit entry of each change it commits to `journal`. A
    /// call that changes nothing has no entry.
    #[must_use]
    pub fn with_journal(&self, journal: &Journal) -> Self {
        Self { pool: self.pool.clone(), journal: Some(journal.clone()) }
    }

    /// Creates or updates the tables, if no call has done so yet. Many nodes may do this at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be reached, or was written by a newer version of this program.
    pub async fn migrate(&self) -> Result<()> {
        self.pool.migrate().await
    }

    /// Runs `work` with [`DEADLINE`], and cancels it when the deadline is reached.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        within(DEADLINE, work).await
    }

    /// Runs a write with [`DEADLINE`] and commits it. If the commit gets no proper reply, checks whether it
    /// has happened before returning.
    pub(crate) async fn change<T>(&self, work: impl Future<Output = Result<Prepared<T>>>) -> Result<T> {
        let (prepared, value) = match self.within(work).await? {
            Prepared::Unchanged(value) => return Ok(value),
            Prepared::Changed(prepared, value) => (prepared, value),
        };
        let (session, entry) = *prepared;
        if let Err(failed) = self.within(session.commit()).await {
            match self.has_happened(&entry).await {
                Ok(true) => {}
                Ok(false) => return Err(failed),
                Err(_) => {
                    return Err(Error::Uncertain { entry: Box::new(entry), reason: failed.to_string() });
                }
            }
        }
        if let Some(journal) = &self.journal {
            journal.push(entry);
        }
        Ok(value)
    }

    /// Returns whether a write whose commit got no reply has happened. Every write locks the same row first,
    /// so once this call has the lock, the write has either been committed or rolled back.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails, or the write has not ended yet.
    pub async fn has_happened(&self, entry: &AuditEntry) -> Result<bool> {
        self.within(async {
            let mut write = Session::write(&self.pool).await?;
            write.execute("UPDATE catalog SET base = base", &[]).await?;
            let found = audit::find(&mut write, entry.id).await?;
            // Nothing was changed, so the result of the rollback does not matter.
            let _ = write.roll_back().await;
            Ok(found.as_ref() == Some(entry))
        })
        .await
    }

    pub(crate) async fn read(&self) -> Result<Session> {
        Session::read(&self.pool).await
    }

    /// Begins a write. It first updates the row with the version, which locks out all other writers. So
    /// writes run one at a time, and versions become visible in order.
    pub(crate) async fn begin(&self, by: &By) -> Result<Write> {
        by.check()?;
        let mut session = Session::write(&self.pool).await?;
        let sql = "UPDATE catalog SET version = version + 1 RETURNING version";
        let revision = session.row(sql, &[], |row| row.number(0)).await?;
        let revision = revision.ok_or_else(Error::emptied)?;
        Ok(Write { session, by: By { at: time::whole(by.at), ..by.clone() }, revision })
    }
}

/// Runs `work` with a deadline, and cancels it when the deadline is reached.
pub(crate) async fn within<T>(deadline: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(deadline, work).await {
        Ok(done) => done,
        Err(_) => Err(Error::Unavailable(format!("no reply within {} s", deadline.as_secs()))),
    }
}

impl Write {
    /// Writes the audit entry and sends the notification. Only the commit is left to do.
    pub(crate) async fn prepared<T>(
        mut self,
        action: &str,
        object_kind: &str,
        object: &str,
        [before, after]: [Option<Value>; 2],
        value: T,
    ) -> Result<Prepared<T>> {
        let entry = AuditEntry {
            id: self.revision,
            at: self.by.at,
            actor: self.by.actor.clone(),
            action: action.to_owned(),
            object_kind: object_kind.to_owned(),
            object: object.to_owned(),
            before,
            after,
            request_id: self.by.request_id.clone(),
        };
        audit::store(&mut self.session, &entry).await?;
        if self.session.is_postgres() {
            postgres::notify(&mut self.session, self.revision).await?;
        }
        Ok(Prepared::Changed(Box::new((self.session, entry)), value))
    }

    /// Rolls back, because there was nothing to change.
    pub(crate) async fn unchanged<T>(self, value: T) -> Result<Prepared<T>> {
        self.session.roll_back().await?;
        Ok(Prepared::Unchanged(value))
    }
}

impl Deref for Write {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.session
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.session
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}
