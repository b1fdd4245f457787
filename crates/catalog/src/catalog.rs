//! The catalog: how to open it, and the transactions and deadlines of all its calls.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::sql::connection::Connection;
use crate::sql::pool::{Place, Pool};
use crate::sql::{Commit, Session, postgres, sqlite};
use crate::{AuditEntry, By, Listen};
use crate::{audit, feed, time};

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
#[derive(Clone, Default)]
pub struct Journal {
    entries: Arc<Mutex<Vec<AuditEntry>>>,
    announce: Option<Announce>,
}

/// Called with each entry before its change is committed.
type Announce = Arc<dyn Fn(AuditEntry) -> BoxFuture<'static, ()> + Send + Sync>;

impl Journal {
    /// Returns a journal that calls `announce` with each entry, and waits for it, before the change is committed. So
    /// a caller can save the entry in case it crashes before it knows whether the change was committed. A change that
    /// was announced may fail; if it is retried, it is announced again.
    #[must_use]
    pub fn announcing(
        announce: impl Fn(AuditEntry) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { announce: Some(Arc::new(announce)), ..Self::default() }
    }

    /// Returns the entries of the committed changes, in the order of their commits.
    pub fn entries(&self) -> Vec<AuditEntry> {
        self.entries.lock().clone()
    }

    /// Takes the entries out, in the order of their commits.
    pub fn take(&self) -> Vec<AuditEntry> {
        mem::take(&mut self.entries.lock())
    }

    async fn announce(&self, entry: &AuditEntry) {
        if let Some(announce) = &self.announce {
            announce(entry.clone()).await;
        }
    }

    fn push(&self, entry: AuditEntry) {
        self.entries.lock().push(entry);
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// A write in progress. It has a revision, and no other write gets one until it ends.
pub(crate) struct Write {
    session: Session,
    pub(crate) by: By,
    pub(crate) revision: u64,
}

/// Several reads of the same state of the catalog.
pub(crate) struct Snapshot {
    session: Session,
    /// The version and base at the beginning, if there is no transaction and only they tell whether the state has
    /// changed.
    versions: Option<(u64, u64)>,
}

/// The result of a write before it is committed.
pub(crate) enum Prepared<T> {
    /// There was nothing to change.
    Unchanged(T),
    /// Another writer committed while this one was reading, so the reads may be of different states.
    Superseded,
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

    /// Prepares a write with [`DEADLINE`] and commits it. Prepares it again if another writer committed first, or if
    /// a reply was disturbed. If the commit gets no proper reply, checks whether it was made before returning.
    pub(crate) async fn change<T, F>(&self, prepare: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Prepared<T>>>,
    {
        let began = Instant::now();
        loop {
            let mut reason = "other writers were faster".to_owned();
            match self.within(prepare()).await {
                Ok(Prepared::Unchanged(value)) => return Ok(value),
                Ok(Prepared::Superseded) => {}
                // Nothing is committed yet, so it can be prepared again.
                Err(Error::Disturbed(disturbance)) => reason = disturbance,
                Err(error) => return Err(error),
                Ok(Prepared::Changed(prepared, value)) => {
                    let (session, entry) = *prepared;
                    if let Some(journal) = &self.journal {
                        journal.announce(&entry).await;
                    }
                    if self.commit(session, &entry).await? == Commit::Done {
                        if let Some(journal) = &self.journal {
                            journal.push(entry);
                        }
                        return Ok(value);
                    }
                }
            }
            if began.elapsed() >= DEADLINE {
                return Err(Error::Unavailable(format!("{reason}, for {} s", DEADLINE.as_secs())));
            }
        }
    }

    /// Commits a write. If the commit gets no proper reply, checks whether it was made.
    async fn commit(&self, session: Session, entry: &AuditEntry) -> Result<Commit> {
        let failed = match self.within(session.commit()).await {
            Ok(committed) => return Ok(committed),
            Err(failed) => failed,
        };
        match self.has_happened(entry).await {
            Ok(true) => Ok(Commit::Done),
            Ok(false) if matches!(failed, Error::Disturbed(_)) => Ok(Commit::Superseded),
            Ok(false) => Err(failed),
            Err(_) => Err(Error::Uncertain { entry: Box::new(entry.clone()), reason: failed.to_string() }),
        }
    }

    /// Returns whether a write was committed although its commit got no reply. Every write locks the same row first,
    /// so once this call has the lock, the write has either been committed or rolled back. Behind a pooler in
    /// statement mode the write may still arrive later. There, this call uses up the version that the write was
    /// prepared for, so that it can no longer be committed.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails, or if the write has not ended yet.
    pub async fn has_happened(&self, entry: &AuditEntry) -> Result<bool> {
        self.within(async {
            let mut write = Session::write(&self.pool).await?;
            if write.is_per_statement() {
                let sql = "UPDATE catalog SET version = $1 WHERE version = $2";
                write.execute(sql, &[entry.id.into(), entry.id.saturating_sub(1).into()]).await?;
                let (Commit::Done | Commit::Superseded) = write.commit().await?;
                write = Session::write(&self.pool).await?;
            } else {
                write.execute("UPDATE catalog SET base = base", &[]).await?;
            }
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

    /// Begins to read with several statements that all see the same state of the catalog. The caller begins
    /// again until [`Snapshot::done`] returns true.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        let mut session = self.read().await?;
        // Behind a pooler in statement mode there is no transaction. The state is unchanged if the version is.
        let versions =
            if session.is_per_statement() { Some(feed::versions(&mut session).await?) } else { None };
        Ok(Snapshot { session, versions })
    }

    /// Begins a write. It first updates the row with the version, which locks out all other writers. So
    /// writes run one at a time, and versions become visible in order.
    pub(crate) async fn begin(&self, by: &By) -> Result<Write> {
        by.check()?;
        let mut session = Session::write(&self.pool).await?;
        let revision = lock_out_writers(&mut session, 1).await?;
        Ok(Write { session, by: By { at: time::whole(by.at), ..by.clone() }, revision })
    }
}

/// Locks out all other writers, raises the version by `raise`, and returns it.
///
/// If the lock is not held until the commit, the write fails if the version has changed in the meantime: the row does
/// not accept a negative version.
pub(crate) async fn lock_out_writers(session: &mut Session, raise: u64) -> Result<u64> {
    if !session.is_per_statement() {
        let sql = "UPDATE catalog SET version = version + $1 RETURNING version";
        let version = session.row(sql, &[raise.into()], |row| row.number(0)).await?;
        return version.ok_or_else(Error::emptied);
    }
    let version = session.row("SELECT version FROM catalog", &[], |row| row.number(0)).await?;
    let version = version.ok_or_else(Error::emptied)?;
    let sql = "UPDATE catalog SET version = CASE WHEN version = $1 THEN $2 ELSE -1 END";
    session.execute(sql, &[version.into(), (version + raise).into()]).await?;
    Ok(version + raise)
}

/// Runs `work` with a deadline, and cancels it when the deadline is reached.
pub(crate) async fn within<T>(deadline: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(deadline, work).await {
        Ok(done) => done,
        Err(_) => Err(Error::Unavailable(format!("no reply within {} s", deadline.as_secs()))),
    }
}

impl Snapshot {
    /// Ends reading. Returns false if the reads may be of different states, so that they must be repeated.
    pub(crate) async fn done(mut self) -> Result<bool> {
        let same = match self.versions {
            Some(versions) => feed::versions(&mut self.session).await? == versions,
            None => true,
        };
        self.session.done().await;
        Ok(same)
    }
}

impl Deref for Snapshot {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.session
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.session
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
    pub(crate) async fn unchanged<T>(mut self, value: T) -> Result<Prepared<T>> {
        // Without a lock, the reads are of one state only if the version is unchanged.
        let superseded = self.session.is_per_statement()
            && feed::versions(&mut self.session).await?.0 + 1 != self.revision;
        self.session.roll_back().await?;
        if superseded {
            return Ok(Prepared::Superseded);
        }
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
