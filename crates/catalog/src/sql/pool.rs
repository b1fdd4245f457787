//! Connections that are kept for the next call.
//!
//! Not by sqlx's own pool: that knows one host, and waits for the answer to a call that was given up before
//! it lets go of the connection, which of a server that hangs is never.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{self, Metrics, Object, RecycleResult};
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};

use super::connection::Connection;
use super::{migrations, postgres, sqlite};
use crate::error::{Error, Result};

/// How many connections there are at most. Admin calls are rare and writers come one by one anyway.
const MAX_CONNECTIONS: usize = 4;
/// How long migrations may take, which have more to do than calls have.
const MIGRATE_WITHIN: Duration = Duration::from_mins(1);

/// Where the database is.
#[derive(Clone)]
pub(crate) enum Place {
    Sqlite(Arc<sqlite::Options>),
    Postgres(Arc<postgres::Hosts>),
}

/// Makes connections, and looks after those that come back.
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
            Self::Postgres(hosts) => hosts.connect().await.map(Connection::Postgres),
        }
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection> {
        let mut connection = self.place.connect().await?;
        if connection.is_postgres() {
            postgres::adopt(&mut connection).await?;
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

    /// Brings the tables up to date, once.
    pub(crate) async fn migrate(&self) -> Result<()> {
        self.migrated
            .get_or_try_init(async || {
                let place = self.place.clone();
                // On its own: a call that gives up does not undo what has taken longer than a call may.
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
        // In boxes: connecting is long to tell, and rare.
        Box::pin(self.migrate()).await?;
        Ok(Box::pin(self.inner.get()).await?)
    }

    pub(crate) async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        match self.place {
            Place::Sqlite(_) => Some(self.writers.clone().lock_owned().await),
            Place::Postgres(_) => None,
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}
