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
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Session {
    /// One that sees the same state from its first statement to its last.
    pub(crate) async fn read(pool: &Pool) -> Result<Self> {
        let mut session = Self::new(pool, None).await?;
        let begin =
            if session.is_postgres() { "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" } else { "BEGIN" };
        session.begin(begin).await?;
        Ok(session)
    }

    /// One that writes.
    pub(crate) async fn write(pool: &Pool) -> Result<Self> {
        let turn = pool.turn().await;
        let mut session = Self::new(pool, turn).await?;
        let begin = if session.is_postgres() {
            // A writer that falls silent would hold up all others.
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '5s'; SET LOCAL lock_timeout = '5s'"
        } else {
            "BEGIN IMMEDIATE"
        };
        session.begin(begin).await?;
        Ok(session)
    }

    async fn new(pool: &Pool, turn: Option<OwnedMutexGuard<()>>) -> Result<Self> {
        Ok(Self { connection: Some(pool.get().await?), open: false, _turn: turn })
    }

    async fn begin(&mut self, sql: &'static str) -> Result<()> {
        self.open = true;
        self.script(sql).await
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
