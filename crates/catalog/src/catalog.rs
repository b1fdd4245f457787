//! The catalog itself, and what every call of it goes through.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::sql::connection::Connection;
use crate::sql::pool::{Place, Pool};
use crate::sql::{Session, postgres, sqlite};
use crate::{AuditEntry, By, Listen};
use crate::{audit, time};

/// No call takes longer.
pub const DEADLINE: Duration = Duration::from_secs(2);
/// Reading everything is more work than any other call: a hundred thousand tenants are part of the plan.
pub(crate) const LONG_DEADLINE: Duration = Duration::from_secs(30);

/// The SQL database of tenants, overrides, rule sets, switches, tokens and the audit trail. Clones are cheap
/// and share their connections.
#[derive(Clone)]
pub struct Catalog {
    pub(crate) pool: Pool,
}

/// A write under way: it has its revision, and nobody else has one until it ends.
pub(crate) struct Write {
    session: Session,
    pub(crate) by: By,
    pub(crate) revision: u64,
}

/// What a write has come to before it is committed.
pub(crate) enum Prepared<T> {
    /// There was nothing to do.
    Unchanged(T),
    /// Everything is written but the commit.
    Changed(Box<(Session, AuditEntry)>, T),
}

impl Catalog {
    /// Opens the `SQLite` file at `path`, or makes it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is of a newer version of this program.
    pub async fn sqlite(path: impl AsRef<Path>) -> Result<Self> {
        let options = sqlite::Options::new(path.as_ref());
        options.make()?;
        let catalog = Self { pool: Pool::new(Place::Sqlite(Arc::new(options)))? };
        catalog.migrate().await?;
        Ok(catalog)
    }

    /// The `PostgreSQL` database at `url`: `postgres://user:password@host:port,host:port/database`, with
    /// `sslmode=`, `sslrootcert=`, `sslcert=`, `sslkey=`, `application_name=` and `password_file=` behind
    /// `?`. Of several hosts it is the one that can be written to.
    ///
    /// Nothing is asked of it yet: a node must be able to start while it is down. Its tables are made or
    /// brought up to date by the first call that reaches it.
    ///
    /// # Errors
    ///
    /// If the URL is none.
    pub fn postgres(url: &str) -> Result<Self> {
        Self::postgres_listening(url, Listen::Auto)
    }

    /// The `PostgreSQL` database at `url`, like [`postgres`](Self::postgres), with a say in how to hear of
    /// changes.
    ///
    /// # Errors
    ///
    /// If a URL is none.
    pub fn postgres_listening(url: &str, listen: Listen) -> Result<Self> {
        let hosts = postgres::Hosts::parse(url)?.listening(listen)?;
        Ok(Self { pool: Pool::new(Place::Postgres(Arc::new(hosts)))? })
    }

    /// Brings the tables up to date, if no call has done so yet. Many nodes may do it at once.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached, or is of a newer version of this program.
    pub async fn migrate(&self) -> Result<()> {
        self.pool.migrate().await
    }

    /// Does all of the work in time, or lets go of it.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        within(DEADLINE, work).await
    }

    /// Does all of a write in time, and commits it. If the commit is not answered as it should be, whether it
    /// has happened is found out before anybody is told.
    pub(crate) async fn change<T>(&self, work: impl Future<Output = Result<Prepared<T>>>) -> Result<T> {
        let (prepared, value) = match self.within(work).await? {
            Prepared::Unchanged(value) => return Ok(value),
            Prepared::Changed(prepared, value) => (prepared, value),
        };
        let (session, entry) = *prepared;
        let Err(failed) = self.within(session.commit()).await else { return Ok(value) };
        match self.has_happened(&entry).await {
            Ok(true) => Ok(value),
            Ok(false) => Err(failed),
            Err(_) => Err(Error::Uncertain { entry: Box::new(entry), reason: failed.to_string() }),
        }
    }

    /// Whether a write whose commit was not answered has happened. It took the one row that every writer has
    /// to take, so whoever gets that row next knows that the write has ended, one way or the other.
    ///
    /// # Errors
    ///
    /// If the database fails, or the write has not ended yet.
    pub async fn has_happened(&self, entry: &AuditEntry) -> Result<bool> {
        self.within(async {
            let mut write = Session::write(&self.pool).await?;
            write.execute("UPDATE catalog SET base = base", &[]).await?;
            let found = audit::find(&mut write, entry.id).await?;
            // Nothing was changed: whatever becomes of this, the question is answered.
            let _ = write.roll_back().await;
            Ok(found.as_ref() == Some(entry))
        })
        .await
    }

    pub(crate) async fn read(&self) -> Result<Session> {
        Session::read(&self.pool).await
    }

    /// Begins a write. Its first step takes the one row with the version, which all writers have to: so
    /// they come one by one, and versions appear in their order.
    pub(crate) async fn begin(&self, by: &By) -> Result<Write> {
        by.check()?;
        let mut session = Session::write(&self.pool).await?;
        let sql = "UPDATE catalog SET version = version + 1 RETURNING version";
        let revision = session.row(sql, &[], |row| row.number(0)).await?;
        let revision = revision.ok_or_else(Error::emptied)?;
        Ok(Write { session, by: By { at: time::whole(by.at), ..by.clone() }, revision })
    }
}

pub(crate) async fn within<T>(deadline: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(deadline, work).await {
        Ok(done) => done,
        Err(_) => Err(Error::Unavailable(format!("no answer within {} s", deadline.as_secs()))),
    }
}

impl Write {
    /// Puts down what was done; all that is left is to commit it.
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

    /// Ends without a trace: there was nothing to do.
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
