//! Transactions on connections of the pool.

use std::ops::{Deref, DerefMut};

use deadpool::managed::Object;
use tokio::sync::OwnedMutexGuard;

use super::connection::Connection;
use super::pool::{Manager, Pool};
use super::statement::Commit;
use crate::error::{Error, Result};

/// A transaction.
///
/// If it is dropped before its end, at a deadline or because the call was cancelled, its connection is
/// closed. So the database rolls it back, and no later call receives a reply that was meant for it.
pub(crate) struct Session {
    connection: Option<Object<Manager>>,
    open: bool,
    /// Held by writers of this process that could not wait for each other's locks in the database.
    writer_lock: Option<OwnedMutexGuard<()>>,
}

/// How many connections are tried if a transaction cannot begin. A pooler may pass on a connection on which
/// its last user has listened: a notification for that user makes it unusable for us. Nothing has been done
/// yet, so another connection can be tried.
const BEGIN_ATTEMPTS: usize = 4;
/// Begins a write. `UNLISTEN` is for poolers: another client may have listened on this connection, and then
/// the notification of this change would arrive in the middle of the reply to its commit. The timeouts keep a
/// writer that hangs from blocking all others.
const WRITE: &str = "BEGIN; UNLISTEN *; SET LOCAL idle_in_transaction_session_timeout = '5s'; \
     SET LOCAL lock_timeout = '5s'";

impl Session {
    /// Begins a transaction whose statements all see the same state of the database.
    pub(crate) async fn read(pool: &Pool) -> Result<Self> {
        Self::open(pool, None, "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    /// Begins a transaction that writes.
    pub(crate) async fn write(pool: &Pool) -> Result<Self> {
        let writer_lock = pool.lock_writers().await;
        Self::open(pool, writer_lock, "BEGIN IMMEDIATE", WRITE).await
    }

    async fn open(
        pool: &Pool,
        writer_lock: Option<OwnedMutexGuard<()>>,
        on_sqlite: &'static str,
        on_postgres: &'static str,
    ) -> Result<Self> {
        let mut left = BEGIN_ATTEMPTS;
        loop {
            left -= 1;
            match Self::begin(pool, on_sqlite, on_postgres).await {
                Ok(mut session) => {
                    session.writer_lock = writer_lock;
                    return Ok(session);
                }
                Err(Error::Disturbed(_)) if left > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn begin(pool: &Pool, on_sqlite: &'static str, on_postgres: &'static str) -> Result<Self> {
        let connection = pool.get().await?;
        let begin = if connection.is_postgres() { on_postgres } else { on_sqlite };
        let mut session = Self { connection: Some(connection), open: true, writer_lock: None };
        session.deref_mut().begin(begin).await?;
        Ok(session)
    }

    /// Ends a transaction that only read. Errors are ignored, because what it has read is valid anyway.
    pub(crate) async fn done(self) {
        let _ = self.commit().await;
    }

    pub(crate) async fn commit(mut self) -> Result<Commit> {
        let committed = self.deref_mut().commit().await?;
        self.open = false;
        Ok(committed)
    }

    pub(crate) async fn roll_back(mut self) -> Result<()> {
        self.deref_mut().roll_back().await?;
        self.open = false;
        Ok(())
    }
}

impl Deref for Session {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("a session has its connection until it is dropped")
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a session has its connection until it is dropped")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.open
        {
            drop(Object::take(connection));
        }
    }
}

impl From<deadpool::managed::PoolError<Error>> for Error {
    fn from(error: deadpool::managed::PoolError<Error>) -> Self {
        match error {
            deadpool::managed::PoolError::Backend(error) => error,
            other => Self::Other(other.to_string()),
        }
    }
}
