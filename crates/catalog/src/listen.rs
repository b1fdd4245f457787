//! Notifications of changes, if the database supports them.

use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Acquire as _, PgConnection, Row as _};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::sql::pool::Place;
use crate::sql::postgres::{CHANNEL, Hosts, ListenAt};

/// How many times to check whether a pooler shares the listener's connection.
const PROBES: usize = 3;
/// How long to wait for a connection before a pooler with a single connection is assumed.
const PROBE_WITHIN: Duration = Duration::from_millis(500);

/// How to listen for changes in `PostgreSQL`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// At the URL of the catalog, unless there is a pooler that assigns a connection per transaction or statement.
    #[default]
    Auto,
    /// Not at all. Callers have to poll the version.
    Off,
    /// At this URL, which must lead to the servers themselves or to a pooler in session mode.
    At(String),
}

/// A connection that receives notifications of changes from `PostgreSQL`. It may break without an error, so
/// callers must also poll the version from time to time.
pub struct Listener {
    inner: PgListener,
}

impl Catalog {
    /// Listens for changes on a connection of its own. Returns `None` on `SQLite`, if listening is turned
    /// off, and behind a pooler that assigns a connection per transaction, because such a pooler would
    /// deliver notifications to other clients.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be reached.
    pub async fn listen(&self) -> Result<Option<Listener>> {
        let Place::Postgres(hosts) = self.pool.place() else { return Ok(None) };
        match hosts.listen_at() {
            None => Ok(None),
            Some(_) if hosts.is_pooled() => Ok(None),
            Some(ListenAt::Same) => self.within(Listener::connect(hosts, hosts)).await,
            Some(ListenAt::Own(own)) => self.within(Listener::connect(own, hosts)).await,
        }
    }

    /// Returns whether a pooler was found that assigns a connection per transaction, so that
    /// [listening](Self::listen) is not possible.
    pub fn is_pooled(&self) -> bool {
        matches!(self.pool.place(), Place::Postgres(hosts) if hosts.is_pooled())
    }
}

impl Listener {
    /// Listens at `hosts`. If a pooler makes that impossible, records this in `catalog_hosts` and returns
    /// `None`.
    async fn connect(hosts: &Hosts, catalog_hosts: &Hosts) -> Result<Option<Self>> {
        let pool = hosts.single().await?;
        if hosts.is_per_statement() {
            catalog_hosts.set_pooled();
            return Ok(None);
        }
        let mut inner = PgListener::connect_with(&pool).await?;
        // The caller must see the end of the connection, because it has missed notifications.
        inner.eager_reconnect(false);
        // Checked before listening, because a shared connection would keep listening for its next user.
        if is_shared(&mut inner, hosts).await? {
            catalog_hosts.set_pooled();
            return Ok(None);
        }
        inner.listen(CHANNEL).await?;
        Ok(Some(Self { inner }))
    }

    /// Waits for the next change, and returns the version of the catalog after it.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is closed. Then drop the listener, poll the version, and listen
    /// again.
    pub async fn next(&mut self) -> Result<u64> {
        loop {
            match self.inner.try_recv().await? {
                Some(notification) => {
                    if let Ok(version) = notification.payload().parse() {
                        return Ok(version);
                    }
                }
                None => {
                    return Err(Error::Unavailable(
                        "the connection that listens for changes was closed".to_owned(),
                    ));
                }
            }
        }
    }
}

/// Returns whether a pooler shares the listener's connection with other clients. A direct connection always
/// has the same server process. Behind such a pooler the process changes when another client, here a second
/// connection of ours, uses it for a transaction. This detects poolers that hand out the most recently used
/// connection and those that hand out the least recently used one.
async fn is_shared(listener: &mut PgListener, hosts: &Hosts) -> Result<bool> {
    let mut other = hosts.connect_bare().await?;
    let ours = process(listener.acquire().await?).await?;
    for _ in 0..PROBES {
        match shares_with(listener, &mut other, ours).await {
            Ok(false) => {}
            // A protocol error means that it received a notification for which another client has listened
            // on the same connection.
            Ok(true) | Err(sqlx::Error::Protocol(_)) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

async fn shares_with(
    listener: &mut PgListener,
    other: &mut PgConnection,
    ours: i32,
) -> Result<bool, sqlx::Error> {
    sqlx::raw_sql("BEGIN").execute(&mut *other).await?;
    let theirs = process(&mut *other).await?;
    let connection = listener.acquire().await?;
    let Ok(meanwhile) = tokio::time::timeout(PROBE_WITHIN, process(connection)).await else {
        return Ok(true);
    };
    let meanwhile = meanwhile?;
    sqlx::raw_sql("ROLLBACK").execute(&mut *other).await?;
    let after = process(listener.acquire().await?).await?;
    Ok(theirs == ours || meanwhile != ours || after != ours)
}

/// Returns the ID of the server process that serves this connection.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}
