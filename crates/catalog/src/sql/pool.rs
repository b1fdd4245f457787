//! The connection pool.
//!
//! This is not the pool of sqlx, which supports a single host and, when a call is cancelled, waits for its
//! reply before it releases the connection. A server that hangs never sends that reply.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{self, Metrics, Object, RecycleResult};
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};

use super::connection::Connection;
use super::{migrations, postgres, sqlite};
use crate::error::{Error, Result};

/// The largest number of connections. Admin calls are rare, and writers run one at a time anyway.
const MAX_CONNECTIONS: usize = 4;
/// The deadline for migrations, which do more work than other calls.
const MIGRATE_WITHIN: Duration = Duration::from_mins(1);

/// The database to connect to.
#[derive(Clone)]
pub(crate) enum Place {
    Sqlite(Arc<sqlite::Options>),
    Postgres(Arc<postgres::Hosts>),
}

/// Opens connections, and checks them before they are used again.
pub(crate) struct Manager {
    place: Place,
}

/// The connections of one catalog.
#[derive(Clone)]
pub(crate) struct Pool {
    inner: managed::Pool<Manager>,
    place: Place,
    migrated: Arc<OnceCell<()>>,
    writers: Arc<Mutex<()>>,
}

impl Place {
    pub(crate) async fn connect(&self) -> Result<Connection> {
        match self {
            Self::Sqlite(options) => options.connect().await.map(Connection::Sqlite),
            Self::Postgres(hosts) => hosts.connect().await,
        }
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection> {
        let mut connection = self.place.connect().await?;
        if connection.is_postgres() {
            postgres::skip_forked_versions(&mut connection).await?;
        }
        Ok(connection)
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        Ok(connection.ping().await?)
    }
}

impl Pool {
    pub(crate) fn new(place: Place) -> Result<Self> {
        let manager = Manager { place: place.clone() };
        let inner = managed::Pool::builder(manager).max_size(MAX_CONNECTIONS).build();
        let inner = inner.map_err(|error| Error::Other(error.to_string()))?;
        Ok(Self { inner, place, migrated: Arc::default(), writers: Arc::default() })
    }

    /// Runs the migrations, once per pool.
    pub(crate) async fn migrate(&self) -> Result<()> {
        self.migrated
            .get_or_try_init(async || {
                let place = self.place.clone();
                // In a task of its own, so that a call that reaches its deadline does not cancel a migration
                // that takes longer.
                let work = async move { migrations::run(&mut place.connect().await?).await };
                match tokio::spawn(tokio::time::timeout(MIGRATE_WITHIN, work)).await {
                    Ok(Ok(done)) => done,
                    Ok(Err(_)) => Err(Error::Unavailable("its tables are not up to date yet".to_owned())),
                    Err(error) => Err(Error::Other(error.to_string())),
                }
            })
            .await
            .copied()
    }

    pub(crate) async fn get(&self) -> Result<Object<Manager>> {
        // Boxed, because these futures are large and connecting is rare.
        Box::pin(self.migrate()).await?;
        Ok(Box::pin(self.inner.get()).await?)
    }

    /// Waits until no other writer of this process is active. `SQLite` would make them poll for its lock, and
    /// behind a pooler in statement mode each would have to begin again.
    pub(crate) async fn lock_writers(&self) -> Option<OwnedMutexGuard<()>> {
        match &self.place {
            Place::Postgres(hosts) if !hosts.is_per_statement() => None,
            Place::Sqlite(_) | Place::Postgres(_) => Some(self.writers.clone().lock_owned().await),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}
