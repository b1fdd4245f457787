//! A transaction on a connection of the pool.

use std::ops::{Deref, DerefMut};

use deadpool::managed::Object;
use tokio::sync::OwnedMutexGuard;

use super::connection::Connection;
use super::pool::{Manager, Pool};
use crate::error::{Error, Result};

/// A transaction. Dropped before its end, at a deadline or because nobody waits for it any more, it takes
/// its connection with it: the database then undoes it, and no later call finds an answer meant for it.
pub(crate) struct Session {
    connection: Option<Object<Manager>>,
    open: bool,
    /// Writers of this process come one by one: `SQLite` would let them sleep and look again.
    turn: Option<OwnedMutexGuard<()>>,
}

/// How often a transaction that could not begin is tried on another connection. A pooler hands a connection
/// on with whatever its last user asked for: a notification meant for somebody else makes it unusable for us,
/// and nothing has been done yet.
const BEGINNINGS: usize = 4;
/// `UNLISTEN` is for poolers, too: somebody may have listened on this connection before, and would be told of
/// this very change in the middle of the answer to its commit. A writer that falls silent would hold up all
/// others, hence the timeouts.
const WRITE: &str = "BEGIN; UNLISTEN *; SET LOCAL idle_in_transaction_session_timeout = '5s'; \
     SET LOCAL lock_timeout = '5s'";

impl Session {
    /// One that sees the same state from its first statement to its last.
    pub(crate) async fn read(pool: &Pool) -> Result<Self> {
        Self::begin(pool, None, "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    /// One that writes.
    pub(crate) async fn write(pool: &Pool) -> Result<Self> {
        let turn = pool.turn().await;
        Self::begin(pool, turn, "BEGIN IMMEDIATE", WRITE).await
    }

    async fn begin(
        pool: &Pool,
        turn: Option<OwnedMutexGuard<()>>,
        on_sqlite: &'static str,
        on_postgres: &'static str,
    ) -> Result<Self> {
        let mut left = BEGINNINGS;
        loop {
            left -= 1;
            let connection = pool.get().await?;
            let begin = if connection.is_postgres() { on_postgres } else { on_sqlite };
            let mut session = Self { connection: Some(connection), open: true, turn: None };
            match session.try_script(begin).await {
                Ok(()) => {
                    session.turn = turn;
                    return Ok(session);
                }
                Err(sqlx::Error::Protocol(_)) if left > 0 => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends a transaction that only read. What it has read is good even if the end is not answered.
    pub(crate) async fn done(mut self) {
        let _ = self.end("COMMIT").await;
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        self.end("COMMIT").await
    }

    pub(crate) async fn roll_back(mut self) -> Result<()> {
        self.end("ROLLBACK").await
    }

    async fn end(&mut self, sql: &'static str) -> Result<()> {
        self.script(sql).await?;
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
