//! `PostgreSQL`: a database that many nodes share, on one host or several.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, select_ok};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, PgConnection, PgPool, Row as _};

use super::connection::Connection;
use super::statement::{self, Commit, StatementConnection};
use crate::Listen;
use crate::error::{Error, Result};

/// The `NOTIFY` channel for changes.
pub(crate) const CHANNEL: &str = "tidegate_catalog";
/// The delay before the next host is tried as well.
const HEAD_START: Duration = Duration::from_millis(150);
/// The query parameters that a URL may have.
const KNOWN: [&str; 7] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "password_file",
    "target_session_attrs",
];
/// How many connections to a host are tried if a pooler hands out unusable ones.
const CONNECTS: usize = 4;
/// More changes than a standby server can have missed when it becomes primary.
const LEAP: u64 = 1_000_000;

/// The hosts of one database. At any time, one of them accepts writes.
pub(crate) struct Hosts {
    options: Vec<PgConnectOptions>,
    password_file: Option<PathBuf>,
    /// The index of the host that accepted writes last.
    preferred: AtomicUsize,
    /// Where to listen for changes; `None` to not listen.
    listen: Option<ListenAt>,
    /// Whether a pooler was found that assigns a connection per transaction.
    pooled: AtomicBool,
    /// Whether a pooler was found that assigns a connection per message.
    per_statement: AtomicBool,
}

/// Where to listen for changes.
pub(crate) enum ListenAt {
    /// At the hosts that serve all other calls, unless there is a pooler.
    Same,
    /// At separate addresses, which lead to the servers themselves.
    Own(Box<Hosts>),
}

impl Hosts {
    /// Parses `postgres://user:password@host:port,host:port/database?key=value&…`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let bad = |reason: String| Error::invalid("catalog", reason);
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| bad("must begin with postgres://".to_owned()))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Otherwise a part of the password would be parsed as a port, and appear in the error.
        let is_split =
            path.contains('@') || query.split(['&', '=']).next().is_some_and(|name| name.contains('@'));
        if !authority.contains('@') && is_split {
            return Err(bad("a / or ? in a user or password must be written as %2F or %3F".to_owned()));
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let (mut password_file, mut kept) = (None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "password_file" => {
                    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
                    let decoded = decoded.map_err(|_| bad("password_file is not UTF-8".to_owned()))?;
                    password_file = Some(PathBuf::from(decoded.into_owned()));
                }
                // This is what we always do.
                "target_session_attrs" if ["read-write", "primary"].contains(&value) => {}
                key if KNOWN.contains(&key) && key != "target_session_attrs" => kept.push(pair),
                "target_session_attrs" => {
                    return Err(bad(format!("{key}={value} is not understood; write read-write or primary")));
                }
                // The value is not shown: it may be a password behind a misspelt name.
                key => {
                    return Err(bad(format!("{key} is not understood; known are {}", KNOWN.join(", "))));
                }
            }
        }
        let query = kept.join("&");
        let options = hosts.split(',').map(|host| {
            let single = format!("postgres://{user}{host}/{path}?{query}");
            let options = PgConnectOptions::from_str(&single);
            let options = options.map_err(|error| bad(format!("is not a valid PostgreSQL URL: {error}")))?;
            // Poolers reject startup parameters that they do not know, and we do not use floats.
            Ok(options.extra_float_digits(None).disable_statement_logging())
        });
        Ok(Self {
            options: options.collect::<Result<_>>()?,
            password_file,
            preferred: AtomicUsize::new(0),
            listen: Some(ListenAt::Same),
            pooled: AtomicBool::new(false),
            per_statement: AtomicBool::new(false),
        })
    }

    /// Returns these hosts with another way of listening for changes.
    pub(crate) fn listening(mut self, listen: Listen) -> Result<Self> {
        self.listen = match listen {
            Listen::Auto => Some(ListenAt::Same),
            Listen::Off => None,
            Listen::At(url) => Some(ListenAt::Own(Box::new(Self::parse(&url)?))),
        };
        Ok(self)
    }

    pub(crate) fn listen_at(&self) -> Option<&ListenAt> {
        self.listen.as_ref()
    }

    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.load(Relaxed)
    }

    pub(crate) fn set_pooled(&self) {
        self.pooled.store(true, Relaxed);
    }

    /// Returns whether a pooler was found that assigns a connection per message.
    pub(crate) fn is_per_statement(&self) -> bool {
        self.per_statement.load(Relaxed)
    }

    /// Connects to the host that accepts writes.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let (_, connection) = self.find().await?;
        Ok(if self.is_per_statement() {
            Connection::Statement(StatementConnection::new(connection))
        } else {
            Connection::Postgres(connection)
        })
    }

    /// Connects to the host that accepts writes, without hiding the driver.
    pub(crate) async fn connect_bare(&self) -> Result<PgConnection> {
        self.find().await.map(|(_, connection)| connection)
    }

    /// Returns a pool with a single connection to the host that accepts writes, for listening.
    pub(crate) async fn single(&self) -> Result<PgPool> {
        let (options, _) = self.find().await?;
        Ok(PgPoolOptions::new().max_connections(1).connect_lazy_with(options))
    }

    /// Finds the host that accepts writes. Tries all hosts with short delays, beginning with the one that
    /// accepted writes last, because a host that is down may either refuse at once or never reply.
    async fn find(&self) -> Result<(PgConnectOptions, PgConnection)> {
        let password = self.password()?;
        let count = self.options.len();
        let preferred = self.preferred.load(Relaxed);
        let attempts: Vec<BoxFuture<'_, Result<_>>> = (0..count)
            .map(|rank| {
                let index = (preferred + rank) % count;
                let mut options = self.options[index].clone();
                if let Some(password) = &password {
                    options = options.password(password);
                }
                async move {
                    tokio::time::sleep(HEAD_START * rank as u32).await;
                    let connection = self.writable(&options).await?;
                    Ok((index, options, connection))
                }
                .boxed()
            })
            .collect();
        let ((index, options, connection), _) = select_ok(attempts).await?;
        self.preferred.store(index, Relaxed);
        Ok((options, connection))
    }

    /// Reads the password file. This is done for every connection, so that the password can be changed.
    fn password(&self) -> Result<Option<String>> {
        let Some(file) = &self.password_file else { return Ok(None) };
        match fs::read_to_string(file) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) => Err(Error::Unavailable(format!("cannot read {}: {error}", file.display()))),
        }
    }

    /// Connects to a host, if it accepts writes. Finds out whether transactions are possible.
    async fn writable(&self, options: &PgConnectOptions) -> Result<PgConnection> {
        let address = || match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        // Every error is temporary: even a wrong password or a missing database may be corrected soon.
        let unavailable = |error: sqlx::Error| Error::Unavailable(format!("{}: {error}", address()));
        let mut left = CONNECTS;
        let (connection, accepts) = loop {
            left -= 1;
            let mut connection = options.connect().await.map_err(unavailable)?;
            match accepts_writes(&mut connection, !self.is_per_statement()).await {
                Ok(accepts) => break (connection, accepts),
                Err(error) if statement::is_refusal(&error) && left > 0 => {
                    self.per_statement.store(true, Relaxed);
                }
                // A connection of a pooler on which another client has listened before.
                Err(sqlx::Error::Protocol(_)) if left > 0 => {}
                Err(error) => return Err(unavailable(error)),
            }
        };
        if !accepts {
            let reason = format!("{} does not accept writes: it is a standby server", address());
            return Err(Error::Unavailable(reason));
        }
        Ok(connection)
    }
}

/// Returns whether the server accepts writes. If transactions may be possible, asks in a transaction of several
/// messages, which a pooler in statement mode refuses.
async fn accepts_writes(connection: &mut PgConnection, in_transaction: bool) -> Result<bool, sqlx::Error> {
    if in_transaction {
        sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
    }
    let sql = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'";
    // In one message: a pooler may send the next one to another server.
    let reply = sqlx::raw_sql(sql).fetch_one(&mut *connection).await?;
    if in_transaction {
        sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await?;
    }
    Ok(!reply.try_get::<bool, _>(0)?)
}

/// Detects a failover or restore, and then skips ahead of all versions that may have been used before.
///
/// A standby server that becomes primary may have missed the last changes. New changes would get the same
/// versions, and a node that has seen the old ones would never read the new ones. So if the history of the
/// database has forked, the first connection raises the version and the base by [`LEAP`], and every reader
/// reads everything again.
pub(crate) async fn skip_forked_versions(connection: &mut Connection) -> Result<()> {
    connection.begin("BEGIN").await?;
    // The timeline rises with every promotion and every restore to an earlier time.
    let sql = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";
    let Ok(Some(lineage)) = connection.row(sql, &[], |row| row.text(0)).await else {
        // Some hosted servers do not allow this query: there, forks are not detected.
        return connection.roll_back().await;
    };
    let known = connection.row("SELECT lineage FROM catalog", &[], |row| row.text(0)).await?;
    if known.as_ref() != Some(&lineage) {
        connection.execute(SKIP_FORKED_VERSIONS, &[lineage.as_str().into(), LEAP.into()]).await?;
    }
    // If another connection was first, it has seen the same fork.
    let (Commit::Done | Commit::Superseded) = connection.commit().await?;
    Ok(())
}

/// Only the first of several connections that see the fork changes anything. A new catalog, which has no
/// lineage yet, keeps its version.
const SKIP_FORKED_VERSIONS: &str = "UPDATE catalog SET lineage = $1, \
     version = CASE WHEN lineage = '' THEN version ELSE version + $2 END, \
     base = CASE WHEN lineage = '' THEN base ELSE version + $2 END WHERE lineage <> $1";

/// Sends a notification of a new version, which is delivered when the transaction is committed.
pub(crate) async fn notify(connection: &mut Connection, version: u64) -> Result<()> {
    let sql = "SELECT pg_notify($1, $2)";
    connection.execute(sql, &[CHANNEL.into(), version.to_string().as_str().into()]).await
}
