//! What has changed, for nodes that keep all of it in memory, and the copy they keep for bad days.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::catalog::{Catalog, LONG_DEADLINE, within};
use crate::error::{Error, Result};
use crate::rules::{self, Rules};
use crate::sql::connection::Connection;
use crate::sql::{Arg, Session, batch};
use crate::switch::{self, SWITCH, Switch};
use crate::tenant::Tenant;
use crate::tenant::table::{self as tenants, OVERRIDE, TENANT};
use crate::token::{self, TOKEN, Token};

/// How a catalog is, without what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The version of all that the catalog holds: it rises with every change.
    pub version: u64,
    /// What tells this database from any other; of a copy, the one it is a copy of.
    pub identity: String,
    /// The time by the database's clock; none on `SQLite`, whose clock is this node's own.
    pub clock: Option<ClockReading>,
}

/// The time by a clock elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// What it said.
    pub at: Timestamp,
    /// Not before this moment.
    pub asked_at: Instant,
    /// Not after this moment.
    pub answered_at: Instant,
}

/// What leads from one version to another, later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The version it leads from.
    pub since: u64,
    /// The version it leads to.
    pub version: u64,
    /// It is all there is, whatever was before: what is not in here does not exist.
    pub whole: bool,
    /// Tenants, each at most once.
    pub tenants: Vec<TenantChange>,
    /// Rule sets, each domain at most once.
    pub rules: Vec<RulesChange>,
    /// Switches.
    pub switches: Vec<Switch>,
    /// Tokens; those that were revoked say so.
    pub tokens: Vec<Token>,
}

/// What became of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantChange {
    /// It is this now.
    Put(Tenant),
    /// There is none of this name now.
    Gone(String),
}

/// What became of a domain's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesChange {
    /// The domain.
    pub domain: String,
    /// Its rules now, if it has any.
    pub rules: Option<Rules>,
}

impl Changes {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        !self.whole
            && self.tenants.is_empty()
            && self.rules.is_empty()
            && self.switches.is_empty()
            && self.tokens.is_empty()
    }
}

impl Catalog {
    /// The version of all that the catalog holds: it rises with every change.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn version(&self) -> Result<u64> {
        self.within(async {
            let mut read = self.read().await?;
            let (version, _) = versions(&mut read).await?;
            read.done().await;
            Ok(version)
        })
        .await
    }

    /// Version, identity and clock of the database, in one question.
    ///
    /// # Errors
    ///
    /// If the database fails.
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

    /// What tells this database from any other; of a copy, the one it is a copy of.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn identity(&self) -> Result<String> {
        self.within(async {
            let mut read = self.read().await?;
            let found = read.row("SELECT identity FROM catalog", &[], |row| row.text(0)).await?;
            read.done().await;
            found.ok_or_else(Error::emptied)
        })
        .await
    }

    /// Makes this a copy of the database with that identity, by all that it holds.
    ///
    /// # Errors
    ///
    /// If `all` is not all, or the database fails.
    pub async fn become_copy(&self, identity: &str, all: &Changes) -> Result<()> {
        if !all.whole {
            return Err(Error::invalid("all", "is not all there is"));
        }
        self.apply(all).await?;
        self.within(async {
            let mut write = Session::write(&self.pool).await?;
            write
                .execute("UPDATE catalog SET identity = $1, lineage = $2", &[identity.into(), COPY.into()])
                .await?;
            write.commit().await
        })
        .await
    }

    /// Whether this is a copy of another catalog: one that was only just made is not.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn is_copy(&self) -> Result<bool> {
        self.within(async {
            let mut read = self.read().await?;
            let sql = "SELECT lineage, version FROM catalog";
            let found = read.row(sql, &[], |row| Ok((row.text(0)?, row.number(1)?))).await?;
            read.done().await;
            // Copies of earlier versions of this program do not say so.
            Ok(found.is_some_and(|(lineage, version)| lineage == COPY || version > 0))
        })
        .await
    }

    /// All there is.
    ///
    /// # Errors
    ///
    /// If the database fails. As long as its answer goes on, this call may take longer than others: 30 s.
    pub async fn everything(&self) -> Result<Changes> {
        within(LONG_DEADLINE, async {
            let mut read = self.within(self.read()).await?;
            let (version, _) = versions(&mut read).await?;
            let all = changes(&mut read, None, version).await?;
            read.done().await;
            Ok(all)
        })
        .await
    }

    /// What has changed since a version. If that is not a version this database has ever been at, or one it
    /// cannot tell from, then it is everything.
    ///
    /// # Errors
    ///
    /// If the database fails. As long as its answer goes on, this call may take longer than others: 30 s.
    pub async fn changes_since(&self, since: u64) -> Result<Changes> {
        within(LONG_DEADLINE, async {
            let mut read = self.within(self.read()).await?;
            let (version, base) = versions(&mut read).await?;
            let known = (base..=version).contains(&since);
            let found = changes(&mut read, known.then_some(since), version).await?;
            read.done().await;
            Ok(found)
        })
        .await
    }

    /// Writes changes of another catalog into this one, which then is a copy of it: all of them or, if it
    /// fails or is killed, none. Changes that it has already are not written again. Histories and the audit
    /// trail are not part of a copy.
    ///
    /// # Errors
    ///
    /// If the changes begin after the version of this copy, or the database fails.
    pub async fn apply(&self, changes: &Changes) -> Result<()> {
        within(LONG_DEADLINE, async {
            let mut write = Session::write(&self.pool).await?;
            let (version, _) = versions(&mut write).await?;
            if !changes.whole && changes.version <= version {
                return write.roll_back().await;
            }
            if !changes.whole && changes.since > version {
                let reason = format!("is {}, but this copy is at version {version}: take all", changes.since);
                return Err(Error::invalid("since", reason));
            }
            if changes.whole {
                write.script(CLEAR).await?;
            }
            write_all(&mut write, changes).await?;
            // What it was before cannot be told from what is left.
            let sql = "UPDATE catalog SET version = $1, base = $1";
            write.execute(sql, &[changes.version.into()]).await?;
            write.commit().await
        })
        .await
    }
}

/// What a copy has in place of the history of its own that a database has.
const COPY: &str = "copy";
/// Microseconds since 1970. Not the time at which the transaction began.
const POSTGRES_CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

const CLEAR: &str = "DELETE FROM overrides; DELETE FROM tenants; DELETE FROM domains; \
     DELETE FROM rule_sets; DELETE FROM switches; DELETE FROM tokens";

/// The version, and the oldest one that changes can be told from.
async fn versions(connection: &mut Connection) -> Result<(u64, u64)> {
    let sql = "SELECT version, base FROM catalog";
    let found = connection.row(sql, &[], |row| Ok((row.number(0)?, row.number(1)?))).await?;
    found.ok_or_else(Error::emptied)
}

/// The statements of a feed: tenants, overrides, rules, switches, tokens. Where few rows of many are meant,
/// `SQLite` is kept from walking through all of them for the sake of their order: by CROSS JOIN, which it
/// takes from left to right, and by an order of ours.
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
    for bare in connection.rows(of_tenants, &args, tenants::read_tenant).await? {
        if bare.deleted {
            gone.push(TenantChange::Gone(bare.tenant.name));
        } else {
            put.push(bare.tenant);
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
    // A copy has the current version only.
    let domains: Vec<Arg> = changes.rules.iter().map(|change| (&change.domain).into()).collect();
    batch::delete(connection, "domains", "domain", &domains).await?;
    batch::delete(connection, "rule_sets", "domain", &domains).await?;
    let current: Vec<&Rules> = changes.rules.iter().filter_map(|change| change.rules.as_ref()).collect();
    rules::store(connection, &current).await?;
    switch::store(connection, &changes.switches.iter().collect::<Vec<_>>()).await?;
    token::store(connection, &changes.tokens.iter().collect::<Vec<_>>()).await
}
