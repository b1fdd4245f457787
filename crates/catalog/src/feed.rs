//! The feed of changes, for nodes that keep the catalog in memory, and the copies that they keep on disk for
//! when the database is down.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::catalog::{Catalog, LONG_DEADLINE, within};
use crate::error::{Error, Result};
use crate::rules::{self, Rules};
use crate::sql::connection::Connection;
use crate::sql::{Arg, Commit, Session, batch};
use crate::switch::{self, SWITCH, Switch};
use crate::tenant::Tenant;
use crate::tenant::table::{self as tenants, OVERRIDE, TENANT};
use crate::token::{self, TOKEN, Token};

/// The state of a catalog without its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The version of the catalog. Rises with every change.
    pub version: u64,
    /// A text that identifies the database. A copy has the identity of its original.
    pub identity: String,
    /// The time of the database's clock; `None` on `SQLite`, which uses the clock of this node.
    pub clock: Option<ClockReading>,
}

/// A reading of the clock of another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The time that the clock showed.
    pub at: Timestamp,
    /// When the request was sent: the clock was read at this time or later.
    pub asked_at: Instant,
    /// When the reply arrived: the clock was read at this time or earlier.
    pub answered_at: Instant,
}

/// The changes from one version of the catalog to a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The version before the changes.
    pub since: u64,
    /// The version after the changes.
    pub version: u64,
    /// Whether this is the full contents of the catalog: anything that is not in here does not exist.
    pub whole: bool,
    /// The changed tenants, each at most once.
    pub tenants: Vec<TenantChange>,
    /// The changed rule sets, each domain at most once.
    pub rules: Vec<RulesChange>,
    /// The changed switches.
    pub switches: Vec<Switch>,
    /// The changed tokens, including revoked ones.
    pub tokens: Vec<Token>,
}

/// A change of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantChange {
    /// The tenant was created or changed to this.
    Put(Tenant),
    /// The tenant with this name was deleted.
    Gone(String),
}

/// A change of the rules of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesChange {
    /// The domain.
    pub domain: String,
    /// The new rules; `None` if they were deleted.
    pub rules: Option<Rules>,
}

impl Changes {
    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        !self.whole
            && self.tenants.is_empty()
            && self.rules.is_empty()
            && self.switches.is_empty()
            && self.tokens.is_empty()
    }
}

impl Catalog {
    /// Returns the version of the catalog, which rises with every change.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn version(&self) -> Result<u64> {
        self.within(async {
            let mut read = self.read().await?;
            let (version, _) = versions(&mut read).await?;
            read.done().await;
            Ok(version)
        })
        .await
    }

    /// Returns the version, identity and clock of the database, with one query.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn status(&self) -> Result<Status> {
        self.within(async {
            let mut read = self.read().await?;
            let clock = if read.is_postgres() { POSTGRES_CLOCK } else { "NULL" };
            let sql = format!("SELECT version, identity, {clock} FROM catalog");
            let asked_at = Instant::now();
            let found =
                read.row(sql, &[], |row| Ok((row.number(0)?, row.text(1)?, row.maybe_time(2)?))).await?;
            let answered_at = Instant::now();
            read.done().await;
            let (version, identity, now) = found.ok_or_else(Error::emptied)?;
            let clock = now.map(|at| ClockReading { at, asked_at, answered_at });
            Ok(Status { version, identity, clock })
        })
        .await
    }

    /// Returns a text that identifies the database. A copy has the identity of its original.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn identity(&self) -> Result<String> {
        self.within(async {
            let mut read = self.read().await?;
            let found = read.row("SELECT identity FROM catalog", &[], |row| row.text(0)).await?;
            read.done().await;
            found.ok_or_else(Error::emptied)
        })
        .await
    }

    /// Makes this a copy of the database with this identity, of which `all` is the full contents.
    ///
    /// # Errors
    ///
    /// Returns an error if `all` is not [`whole`](Changes::whole), or the database fails.
    pub async fn become_copy(&self, identity: &str, all: &Changes) -> Result<()> {
        if !all.whole {
            return Err(Error::invalid("all", "must be the full contents of a catalog (`whole`)"));
        }
        self.apply(all).await?;
        self.within(async {
            let mut write = Session::write(&self.pool).await?;
            write
                .execute("UPDATE catalog SET identity = $1, lineage = $2", &[identity.into(), COPY.into()])
                .await?;
            let (Commit::Done | Commit::Superseded) = write.commit().await?;
            Ok(())
        })
        .await
    }

    /// Returns whether this is a copy of another catalog. A catalog that was just created is not.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn is_copy(&self) -> Result<bool> {
        self.within(async {
            let mut read = self.read().await?;
            let sql = "SELECT lineage, version FROM catalog";
            let found = read.row(sql, &[], |row| Ok((row.text(0)?, row.number(1)?))).await?;
            read.done().await;
            // Copies made by earlier versions of this program are not marked.
            Ok(found.is_some_and(|(lineage, version)| lineage == COPY || version > 0))
        })
        .await
    }

    /// Returns the full contents of the catalog. This may take up to 30 s, as long as rows keep arriving.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn everything(&self) -> Result<Changes> {
        within(LONG_DEADLINE, async {
            loop {
                let mut read = self.within(self.snapshot()).await?;
                let (version, _) = versions(&mut read).await?;
                let all = changes(&mut read, None, version).await?;
                if read.done().await? {
                    return Ok(all);
                }
            }
        })
        .await
    }

    /// Returns the changes since a version. If the database never had that version, or no longer knows what
    /// has changed since, returns the full contents. This may take up to 30 s, as long as rows keep arriving.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn changes_since(&self, since: u64) -> Result<Changes> {
        within(LONG_DEADLINE, async {
            loop {
                let mut read = self.within(self.snapshot()).await?;
                let (version, base) = versions(&mut read).await?;
                let known = (base..=version).contains(&since);
                let found = changes(&mut read, known.then_some(since), version).await?;
                if read.done().await? {
                    return Ok(found);
                }
            }
        })
        .await
    }

    /// Applies the changes of another catalog to this copy of it: all of them, or none if the call fails or
    /// the process is killed. Changes that the copy already has are skipped. The history of rules and the
    /// audit trail are not part of a copy.
    ///
    /// # Errors
    ///
    /// Returns an error if the changes begin after the version of this copy, or the database fails.
    pub async fn apply(&self, changes: &Changes) -> Result<()> {
        within(LONG_DEADLINE, async {
            let mut write = Session::write(&self.pool).await?;
            let (version, _) = versions(&mut write).await?;
            if !changes.whole && changes.version <= version {
                return write.roll_back().await;
            }
            if !changes.whole && changes.since > version {
                let reason = format!(
                    "is {}, but this copy is at version {version}: copy the full contents",
                    changes.since
                );
                return Err(Error::invalid("since", reason));
            }
            if changes.whole {
                write.script(CLEAR).await?;
            }
            write_all(&mut write, changes).await?;
            // A copy cannot tell what has changed since an earlier version.
            let sql = "UPDATE catalog SET version = $1, base = $1";
            write.execute(sql, &[changes.version.into()]).await?;
            let (Commit::Done | Commit::Superseded) = write.commit().await?;
            Ok(())
        })
        .await
    }
}

/// The lineage of a copy, in place of the timeline of a database.
const COPY: &str = "copy";
/// The current time in microseconds since the epoch, not the time at which the transaction began.
const POSTGRES_CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

const CLEAR: &str = "DELETE FROM overrides; DELETE FROM tenants; DELETE FROM domains; \
     DELETE FROM rule_sets; DELETE FROM switches; DELETE FROM tokens";

/// Returns the version, and the oldest version since which changes are known.
pub(crate) async fn versions(connection: &mut Connection) -> Result<(u64, u64)> {
    let sql = "SELECT version, base FROM catalog";
    let found = connection.row(sql, &[], |row| Ok((row.number(0)?, row.number(1)?))).await?;
    found.ok_or_else(Error::emptied)
}

/// Returns the statements of the feed: tenants, overrides, rules, switches, tokens. Where few of many rows
/// are selected, `SQLite` must not scan a whole table for the sake of its order. So the statements use CROSS
/// JOIN, which `SQLite` evaluates from left to right, and the caller sorts the tenants.
pub(crate) fn statements(whole: bool) -> [String; 5] {
    let columns: Vec<String> = OVERRIDE.split(", ").map(|column| format!("o.{}", column.trim())).collect();
    let columns = columns.join(", ");
    if whole {
        return [
            format!("SELECT {TENANT} FROM tenants WHERE deleted = 0 ORDER BY name"),
            format!("SELECT {columns} FROM overrides o ORDER BY o.tenant, o.position"),
            rules::current_sql("d.deleted = 0"),
            format!("SELECT {SWITCH} FROM switches"),
            format!("SELECT {TOKEN} FROM tokens"),
        ];
    }
    [
        format!("SELECT {TENANT} FROM tenants WHERE revision > $1"),
        format!(
            "SELECT {columns} FROM tenants t CROSS JOIN overrides o \
             WHERE o.tenant = t.name AND t.revision > $1 ORDER BY o.tenant, o.position"
        ),
        rules::current_sql("d.revision > $1"),
        format!("SELECT {SWITCH} FROM switches WHERE revision > $1"),
        format!("SELECT {TOKEN} FROM tokens WHERE revision > $1"),
    ]
}

async fn changes(connection: &mut Connection, since: Option<u64>, version: u64) -> Result<Changes> {
    let args: Vec<Arg> = since.map(Arg::from).into_iter().collect();
    let [of_tenants, of_overrides, of_rules, of_switches, of_tokens] = statements(since.is_none());
    let (mut put, mut gone) = (Vec::new(), Vec::new());
    for row in connection.rows(of_tenants, &args, tenants::read_tenant).await? {
        if row.deleted {
            gone.push(TenantChange::Gone(row.tenant.name));
        } else {
            put.push(row.tenant);
        }
    }
    put.sort_unstable_by(|one: &Tenant, other| one.name.cmp(&other.name));
    let overrides = connection.rows(of_overrides, &args, tenants::read_override).await?;
    let put = tenants::join(put, overrides).into_iter().map(TenantChange::Put);
    let rules = connection.rows(of_rules, &args, rules::read_rules).await?.into_iter();
    let rules = rules.map(|rules| RulesChange {
        domain: rules.domain.clone(),
        rules: Some(rules).filter(|rules| rules.text.is_some()),
    });
    Ok(Changes {
        since: since.unwrap_or(0),
        version,
        whole: since.is_none(),
        tenants: put.chain(gone).collect(),
        rules: rules.collect(),
        switches: connection.rows(of_switches, &args, switch::read_switch).await?,
        tokens: connection.rows(of_tokens, &args, token::read_token).await?,
    })
}

async fn write_all(connection: &mut Connection, changes: &Changes) -> Result<()> {
    let (mut put, mut gone) = (Vec::new(), Vec::new());
    for change in &changes.tenants {
        match change {
            TenantChange::Put(tenant) => put.push(tenant),
            TenantChange::Gone(name) => gone.push(Arg::from(name)),
        }
    }
    batch::delete(connection, "overrides", "tenant", &gone).await?;
    batch::delete(connection, "tenants", "name", &gone).await?;
    tenants::store(connection, &put).await?;
    // A copy has only the current version.
    let domains: Vec<Arg> = changes.rules.iter().map(|change| (&change.domain).into()).collect();
    batch::delete(connection, "domains", "domain", &domains).await?;
    batch::delete(connection, "rule_sets", "domain", &domains).await?;
    let current: Vec<&Rules> = changes.rules.iter().filter_map(|change| change.rules.as_ref()).collect();
    rules::store(connection, &current).await?;
    switch::store(connection, &changes.switches.iter().collect::<Vec<_>>()).await?;
    token::store(connection, &changes.tokens.iter().collect::<Vec<_>>()).await
}
