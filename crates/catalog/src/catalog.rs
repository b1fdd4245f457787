//! The catalog itself, and what every call of it goes through.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::By;
use crate::error::{Error, Result};
use crate::sql::connection::Connection;
use crate::sql::pool::{Place, Pool};
use crate::sql::{Session, postgres, sqlite};
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

impl Catalog {
    /// Opens the `SQLite` file at `path`, or makes it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is of a newer version of this program.
    pub async fn sqlite(path: impl AsRef<Path>) -> Result<Self> {
        let options = sqlite::Options::new(path.as_ref());
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
        Ok(Self { pool: Pool::new(Place::Postgres(Arc::new(postgres::Hosts::parse(url)?)))? })
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
        let revision = revision.ok_or_else(|| Error::Other("its version is missing".to_owned()))?;
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
    /// Puts down what was done, and ends.
    pub(crate) async fn commit(
        mut self,
        action: &str,
        object_kind: &str,
        object: &str,
        before: Option<Value>,
        after: Option<Value>,
    ) -> Result<()> {
        let entry = audit::AuditEntry {
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
        self.session.commit().await
    }

    /// Ends without a trace: there was nothing to do.
    pub(crate) async fn cancel(self) -> Result<()> {
        self.session.roll_back().await
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
