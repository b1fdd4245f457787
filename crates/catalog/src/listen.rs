//! Word of a change at once, where the database can give it.

use std::sync::Arc;

use sqlx::postgres::PgListener;

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::sql::pool::Place;
use crate::sql::postgres::{CHANNEL, Hosts};

/// A connection over which `PostgreSQL` tells of changes. It may fall silent without saying so, and poolers
/// may swallow what it tells: look at the version now and then all the same.
pub struct Listener {
    inner: PgListener,
}

impl Catalog {
    /// Listens for changes. `SQLite` tells of none.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached.
    pub async fn listen(&self) -> Result<Option<Listener>> {
        match self.pool.place() {
            Place::Sqlite(_) => Ok(None),
            Place::Postgres(hosts) => self.within(Listener::connect(hosts)).await.map(Some),
        }
    }
}

impl Listener {
    async fn connect(hosts: &Arc<Hosts>) -> Result<Self> {
        let pool = hosts.single().await?;
        let mut inner = PgListener::connect_with(&pool).await?;
        // The end of the connection is for the caller to hear: it has missed something.
        inner.eager_reconnect(false);
        inner.listen(CHANNEL).await?;
        Ok(Self { inner })
    }

    /// Waits for the next change, and gives the version it made. After an error it is of no more use.
    ///
    /// # Errors
    ///
    /// If the connection is gone: look at the version, and listen anew.
    pub async fn next(&mut self) -> Result<u64> {
        loop {
            match self.inner.try_recv().await? {
                Some(told) => {
                    if let Ok(version) = told.payload().parse() {
                        return Ok(version);
                    }
                }
                None => {
                    return Err(Error::Unavailable(
                        "the connection that tells of changes is gone".to_owned(),
                    ));
                }
            }
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}
