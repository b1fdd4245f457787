//! Word of a change at once, where the database can give it.

use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Acquire as _, PgConnection, Row as _};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::sql::pool::Place;
use crate::sql::postgres::{CHANNEL, Hosts, ListenAt};

/// How often it is tried whether a pooler gives the listener another connection.
const PROBES: usize = 3;
/// How long a pooler with one connection keeps the listener waiting before it is known to be one.
const PROBE_WITHIN: Duration = Duration::from_millis(500);

/// How to hear of changes in `PostgreSQL`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// Where everything else is asked, unless a pooler there gives each transaction another connection.
    #[default]
    Auto,
    /// Not at all: whoever follows looks now and then.
    Off,
    /// At this URL, which leads to the servers themselves or to a pooler that keeps sessions.
    At(String),
}

/// A connection over which `PostgreSQL` tells of changes. It may fall silent without saying so: look at the
/// version now and then all the same.
pub struct Listener {
    inner: PgListener,
}

impl Catalog {
    /// Listens for changes, on a connection of its own. There is nothing to hear on `SQLite`, where it is
    /// turned off, and behind a pooler that gives each transaction another connection: such a one would tell
    /// whoever has the connection next.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached.
    pub async fn listen(&self) -> Result<Option<Listener>> {
        let Place::Postgres(hosts) = self.pool.place() else { return Ok(None) };
        match hosts.listen_at() {
            None => Ok(None),
            Some(_) if hosts.is_pooled() => Ok(None),
            Some(ListenAt::Same) => self.within(Listener::connect(hosts, hosts)).await,
            Some(ListenAt::Own(own)) => self.within(Listener::connect(own, hosts)).await,
        }
    }

    /// Whether a pooler was found that gives each transaction another connection, so that there is no
    /// [listening](Self::listen).
    pub fn is_pooled(&self) -> bool {
        matches!(self.pool.place(), Place::Postgres(hosts) if hosts.is_pooled())
    }
}

impl Listener {
    /// Listens at these hosts; notes in `noted` if that is of no use because there is a pooler.
    async fn connect(hosts: &Hosts, noted: &Hosts) -> Result<Option<Self>> {
        let pool = hosts.single().await?;
        let mut inner = PgListener::connect_with(&pool).await?;
        // The end of the connection is for the caller to hear: it has missed something.
        inner.eager_reconnect(false);
        // Before it listens: what a shared connection was told once, it goes on doing for others.
        if is_shared(&mut inner, hosts).await? {
            noted.set_pooled();
            return Ok(None);
        }
        inner.listen(CHANNEL).await?;
        Ok(Some(Self { inner }))
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

/// Whether a pooler hands the listener's connection around. A server's process is ours for as long as we are
/// connected to it; behind such a pooler it changes as soon as somebody else, here ourselves, takes it for a
/// transaction. Poolers that take the connection used last and those that take the one used first both show
/// themselves.
async fn is_shared(listener: &mut PgListener, hosts: &Hosts) -> Result<bool> {
    let mut other = hosts.connect().await?;
    let ours = process(listener.acquire().await?).await?;
    for _ in 0..PROBES {
        match shares_with(listener, &mut other, ours).await {
            Ok(false) => {}
            // A protocol error means that it was told of something it has not listened for: others have, on the
            // same connection.
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

/// The number of the server's process that answers.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}
