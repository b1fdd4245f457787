//! How long the history is kept: audit entries, old versions of rules, and rows of deleted objects.
//!
//! The [feed](crate::Changes) reports deletions from the rows of deleted objects. A reader at an older
//! version would miss a deletion whose row was purged. So the purge raises the base of the catalog in the
//! same transaction: a reader below the base gets the full contents.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::AddAssign;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::catalog::{Catalog, lock_out_writers};
use crate::error::Result;
use crate::sql::connection::Connection;
use crate::sql::{Arg, Commit, Session, batch};

/// The most rows of each kind that one purge removes, so that other writers do not wait long.
pub const PURGE_ROWS: u64 = 200;
/// The most versions of rules that one purge removes. There are fewer than of other rows because they may be
/// long.
pub const PURGE_VERSIONS: u64 = 20;

/// How much of the history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How many versions of each domain's rules are kept, the newest ones, including the current one.
    pub versions: NonZeroU32,
    /// How long audit entries, deleted tenants and rules, and revoked or expired tokens are kept; `None` for
    /// ever.
    pub history: Option<Duration>,
}

/// The number of rows that a purge has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Deleted tenants.
    pub tenants: u64,
    /// Domains whose rules were deleted.
    pub domains: u64,
    /// Revoked or expired tokens.
    pub tokens: u64,
    /// Versions of rules.
    pub versions: u64,
    /// Audit entries.
    pub changes: u64,
}

impl Purged {
    /// Returns whether there was nothing to remove.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Purged {
    fn add_assign(&mut self, more: Self) {
        self.tenants += more.tenants;
        self.domains += more.domains;
        self.tokens += more.tokens;
        self.versions += more.versions;
        self.changes += more.changes;
    }
}

/// Selects deleted tenants. `$1` is the time before which they were deleted, `$2` the most rows.
const TENANTS: &str =
    "SELECT name, revision FROM tenants WHERE deleted = 1 AND updated_at < $1 ORDER BY updated_at LIMIT $2";
/// Selects tokens that were revoked or expired before `$1`, at most `$2`.
const TOKENS: &str = "SELECT id, revision FROM tokens WHERE coalesce(revoked_at, expires_at) < $1 \
     ORDER BY coalesce(revoked_at, expires_at) LIMIT $2";
/// Selects domains whose rules were deleted before `$1`, at most `$2`.
const DOMAINS: &str = "SELECT d.domain, d.revision FROM domains d CROSS JOIN rule_sets r \
     WHERE r.domain = d.domain AND r.version = d.version AND d.deleted = 1 AND r.created_at < $1 LIMIT $2";
/// Selects audit entries from before `$1`, at most `$2`.
const CHANGES: &str = "SELECT id FROM audit WHERE at < $1 ORDER BY at, id LIMIT $2";
/// Selects all versions but the current one of domains whose rules were deleted before `$1`, at most `$2`.
const VERSIONS_OF_DOMAINS: &str = "SELECT o.domain, o.version FROM domains d CROSS JOIN rule_sets r \
     CROSS JOIN rule_sets o WHERE r.domain = d.domain AND r.version = d.version AND d.deleted = 1 \
     AND r.created_at < $1 AND o.domain = d.domain AND o.version < d.version LIMIT $2";
/// The statements that select rows by time.
pub(crate) const BEFORE: [&str; 5] = [TENANTS, TOKENS, DOMAINS, CHANGES, VERSIONS_OF_DOMAINS];
/// Selects versions of rules that have at least `$1` newer ones, at most `$2`. Versions have no gaps.
pub(crate) const OLD_VERSIONS: &str = "SELECT r.domain, r.version FROM domains d CROSS JOIN rule_sets r \
     WHERE d.version > $1 AND r.domain = d.domain AND r.version <= d.version - $1 LIMIT $2";

impl Catalog {
    /// Removes history that need not be kept any longer, at most [`PURGE_ROWS`] rows of each kind and
    /// [`PURGE_VERSIONS`] versions of rules. Call it until the result is empty. If there is nothing to
    /// remove, it does not lock out writers. Many nodes may do this at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. Then nothing was removed.
    pub async fn purge(&self, retention: &Retention, now: Timestamp) -> Result<Purged> {
        let before = retention.history.and_then(|history| start(now, history));
        let keep = i64::from(retention.versions.get());
        self.within(async {
            if !self.has_old(before, keep).await? {
                return Ok(Purged::default());
            }
            loop {
                let mut write = Session::write(&self.pool).await?;
                // Prevents other writers from storing again what is selected below.
                lock_out_writers(&mut write, 0).await?;
                let purged = purge(&mut write, before, keep).await?;
                if write.commit().await? == Commit::Done {
                    return Ok(purged);
                }
            }
        })
        .await
    }

    /// Returns whether there is anything to remove.
    async fn has_old(&self, before: Option<Timestamp>, keep: i64) -> Result<bool> {
        let mut queries = vec![(OLD_VERSIONS, Arg::from(keep))];
        if let Some(before) = before {
            queries.extend([TENANTS, TOKENS, DOMAINS, CHANGES].map(|sql| (sql, before.into())));
        }
        let mut read = self.read().await?;
        let mut found = false;
        for (sql, arg) in queries {
            found = found || !read.rows(sql, &[arg, 1_i64.into()], |_| Ok(())).await?.is_empty();
        }
        read.done().await;
        Ok(found)
    }
}

/// Returns the time before which history is removed, or `None` if that is before the earliest timestamp.
fn start(now: Timestamp, history: Duration) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::try_from(history).ok()?).ok()
}

async fn purge(write: &mut Connection, before: Option<Timestamp>, keep: i64) -> Result<Purged> {
    let mut versions = old_versions(write, OLD_VERSIONS, keep).await?;
    let mut purged = Purged::default();
    if let Some(before) = before {
        let of_domains = old_versions(write, VERSIONS_OF_DOMAINS, before).await?;
        // Only domains of which no version but the last is left.
        if (of_domains.len() as u64) < PURGE_VERSIONS {
            purged.domains = purge_domains(write, before).await?;
        }
        versions.extend(of_domains);
        purged.tenants = purge_rows(write, "tenants", "name", TENANTS, before).await?;
        purged.tokens = purge_rows(write, "tokens", "id", TOKENS, before).await?;
        let ids = write.rows(CHANGES, &[before.into(), PURGE_ROWS.into()], |row| row.number(0)).await?;
        purged.changes = ids.len() as u64;
        let ids: Vec<Arg> = ids.into_iter().map(Arg::from).collect();
        batch::delete(write, "audit", "id", &ids).await?;
    }
    purged.versions = versions.len() as u64;
    for (domain, version) in versions {
        let sql = "DELETE FROM rule_sets WHERE domain = $1 AND version = $2";
        write.execute(sql, &[(&domain).into(), version.into()]).await?;
    }
    Ok(purged)
}

/// Removes domains whose rules were deleted, and returns how many.
async fn purge_domains(write: &mut Connection, before: Timestamp) -> Result<u64> {
    let found = found_rows(write, DOMAINS, before).await?;
    let names = remove(write, "domains", "domain", found).await?;
    batch::delete(write, "rule_sets", "domain", &names).await?;
    Ok(names.len() as u64)
}

/// Removes the rows of `table` whose `column` is selected by `sql`, and returns how many.
async fn purge_rows(
    write: &mut Connection,
    table: &str,
    column: &str,
    sql: &'static str,
    before: Timestamp,
) -> Result<u64> {
    let found = found_rows(write, sql, before).await?;
    Ok(remove(write, table, column, found).await?.len() as u64)
}

/// Returns the names and revisions of rows that may be removed.
async fn found_rows(
    write: &mut Connection,
    sql: &'static str,
    before: Timestamp,
) -> Result<Vec<(String, u64)>> {
    let args = [before.into(), PURGE_ROWS.into()];
    write.rows(sql, &args, |row| Ok((row.text(0)?, row.number(1)?))).await
}

/// Removes rows, makes readers that have not seen the deletion start over, and returns their names.
async fn remove(
    write: &mut Connection,
    table: &str,
    column: &str,
    found: Vec<(String, u64)>,
) -> Result<Vec<Arg>> {
    if let Some(newest) = found.iter().map(|(_, revision)| *revision).max() {
        write.execute("UPDATE catalog SET base = $1 WHERE base < $1", &[newest.into()]).await?;
    }
    let names: Vec<Arg> = found.iter().map(|(name, _)| name.into()).collect();
    batch::delete(write, table, column, &names).await?;
    Ok(names)
}

async fn old_versions(
    write: &mut Connection,
    sql: &'static str,
    arg: impl Into<Arg>,
) -> Result<BTreeSet<(String, u64)>> {
    let args = [arg.into(), PURGE_VERSIONS.into()];
    let found = write.rows(sql, &args, |row| Ok((row.text(0)?, row.number(1)?))).await?;
    Ok(found.into_iter().collect())
}
